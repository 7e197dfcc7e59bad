#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Core and isolation suite beside random resizes, 4 kB pages.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Suite;

Suite::run(huge_pages => 'off', size => 'random');
