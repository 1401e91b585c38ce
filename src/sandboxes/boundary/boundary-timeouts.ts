/** How long the host waits for a sidecar, and how much of it it bears. */

export interface BoundaryTimeouts {
  /** From the connection to the greeting. */
  readonly helloMs: number
  /** For a whole answer, or for the beginning of a stream. */
  readonly answerMs: number
  /** Between two questions whether it is alive, and for the answer to one. */
  readonly pingEveryMs: number
  readonly pingMs: number
  /** For the next byte of a stream that never falls silent, while somebody wants it. */
  readonly silenceMs: number
  /** After a connection from inside that came to nothing, before it is waited for again; doubled each time. */
  readonly reopenMs: number
  readonly reopenMaxMs: number
  /** For one of the connections from inside to end, when there are as many as may be. */
  readonly surplusMs: number
}

export const BOUNDARY_TIMEOUTS: BoundaryTimeouts = {
  helloMs: 5_000,
  answerMs: 15_000,
  pingEveryMs: 10_000,
  pingMs: 10_000,
  silenceMs: 30_000,
  reopenMs: 50,
  reopenMaxMs: 5_000,
  surplusMs: 5_000,
}

/**
 * Streams that the host has open at one sandbox; each may pin a window of memory. Above what callers may hold, so
 * that the host can still ask its own questions then.
 */
export const MAX_OPEN_STREAMS = 768
/** Connections from inside at a time. */
export const MAX_INBOUND = 128
/** How many more may wait for one of them to end, so that what is turned away is known here. */
export const MAX_SURPLUS = 32
/** Pings, or changes of settings, or early headers, that a sidecar has no reason to send, before it is cut off. */
export const MAX_UNSOLICITED = 100
/** Of an answer that is JSON. A list holds up to a thousand paths. */
export const MAX_LIST_BYTES = 8 * 1024 * 1024
export const MAX_ERROR_BYTES = 64 * 1024
