/*-------------------------------------------------------------------------
 *
 * report.h
 *	  Reasons of the library as errors of the server.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_REPORT_H
#define TIDEPOOL_REPORT_H

#include "compat.h"

#include <tidepool/reason.h>

/* SQLSTATE for an outcome code. */
extern int	TideReasonSqlstate(int code);

/* ereport what was tried, with the reason as detail and hint. */
extern void TideReportReason(int elevel, const char *what, const struct tide_reason *why);

#endif							/* TIDEPOOL_REPORT_H */
