#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Core and isolation suite beside random resizes, huge pages.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Suite;

Suite::run(huge_pages => 'on', size => 'random');
