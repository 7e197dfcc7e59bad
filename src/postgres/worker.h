/*-------------------------------------------------------------------------
 *
 * worker.h
 *	  The background worker that carries out resizes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef TIDEPOOL_WORKER_H
#define TIDEPOOL_WORKER_H

#include "compat.h"

extern void TideRegisterWorker(void);
extern PGDLLEXPORT void TideWorkerMain(Datum arg);

#endif							/* TIDEPOOL_WORKER_H */
