/* SPDX-License-Identifier: PostgreSQL */
/* interrupt.h - somebody wants the run to end: it ends in good order. */
#ifndef TIDESTRESS_INTERRUPT_H
#define TIDESTRESS_INTERRUPT_H

/* From here on SIGINT, SIGTERM and SIGHUP only ask. */
void interrupt_catch(void);
int interrupt_came(void);

/* In a child: the supervisor decides. */
void interrupt_leave_to_supervisor(void);

#endif
