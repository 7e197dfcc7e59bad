#!/bin/sh
# SPDX-License-Identifier: PostgreSQL
#
# tests/rcu/disassembly.sh - a find takes no locked instruction, stores nothing outside its stack and calls
# nothing: looked up in what the compiler made of it. TAP on standard output.

set -u
here=$(cd "$(dirname "$0")" && pwd)
object=${BUILD:-$here/../../build}/src/rcu/lookup.o

skip()
{
	echo "1..0 # SKIP $1"
	exit 77
}

case $(uname -m) in
x86_64) ;;
*) skip "knows the instructions of x86-64 only" ;;
esac
command -v objdump >/dev/null || skip "objdump is not installed"
[ -f "$object" ] || skip "$object has not been built"

# Instructions of a function, without addresses; @plt and local names of parts that were split off as well.
code()
{
	objdump -d --no-show-raw-insn --no-addresses "$object" |
		awk -v name="$1" '/^<.*>:$/ { inside = ($0 ~ "^<" name "(\\.[a-z0-9.]+)?>:$") } inside && !/>:$/ && NF'
}

echo "1..4"
n=0
failed=0

# check <name> <0 or 1: what is expected of the last command's grep>
report()
{
	n=$((n + 1))
	if [ "$2" = 0 ]; then
		echo "ok $n - $1"
	else
		failed=1
		echo "not ok $n - $1"
		echo "$3" | sed 's/^/# /'
	fi
}

# absent <name> <extended expression>
absent()
{
	found=$(printf '%s\n' "$all" | grep -E "$2")
	report "$1" "$([ -z "$found" ] && echo 0 || echo 1)" "$found"
}

find=$(code tide_lookup_find)
all=$find
# What it jumps to for the rest of its work is a part of it.
for name in $(printf '%s\n' "$find" | sed -n 's/.*jmp  *<\([a-z_]*\)>.*/\1/p; s/.*jmp .*<\([a-z_]*\)>$/\1/p' |
	grep -v tide_lookup_find | sort -u); do
	all="$all
$(code "$name")"
done
# Both halves were found: each looks through sixteen tags at once.
compares=$(printf '%s\n' "$all" | grep -c pcmpeqb)
report "find and its search are there" "$([ "$compares" -ge 2 ] && echo 0 || echo 1)" "$all"
absent "no locked instruction" '^[[:space:]]*(lock|xacquire|xrelease|[mls]fence)|xchg.*\(|^[[:space:]]*cmpxchg'
absent "no call" '(^|[[:space:]])call'
# In AT&T order the target comes last: a store is a mov, or an operation, to memory that is no stack.
absent "no store but to the stack" \
	'^[[:space:]]*(mov|add|sub|or|and|xor|inc|dec|not|neg|set|pextr)[a-z]*[[:space:]].*(,|[[:space:]])-?(0x[0-9a-f]+)?\(%(r[a-rt-z0-9]|rs[i])[^)]*\)$'
exit $failed
