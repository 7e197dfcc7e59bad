#!/usr/bin/perl
# SPDX-License-Identifier: PostgreSQL
#
# Core and isolation suite with the pool held at its floor.

use strict;
use warnings;

use FindBin;
use lib $FindBin::RealBin;
use Suite;

Suite::run(huge_pages => 'off', size => 'floor');
