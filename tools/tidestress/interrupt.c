/* SPDX-License-Identifier: PostgreSQL */
/* interrupt.c - somebody wants the run to end. */
#include "interrupt.h"

#include <signal.h>

static volatile sig_atomic_t came;

static void on_signal(int number)
{
	(void)number;
	came = 1;
}

static void set_all(void (*handler)(int))
{
	const struct sigaction action = {.sa_handler = handler};

	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGHUP, &action, NULL);
}

void interrupt_catch(void)
{
	set_all(on_signal);
}

int interrupt_came(void)
{
	return came != 0;
}

void interrupt_leave_to_supervisor(void)
{
	set_all(SIG_IGN);
}
