/** The deadlines of the host for a sidecar, and the limits on what the host accepts from it. */

export interface BoundaryTimeouts {
  /** The time from the connection to the greeting. */
  readonly helloMs: number
  /** The deadline for a whole response, or for the start of a stream. */
  readonly answerMs: number
  /** The interval between two pings. `pingMs` is the deadline for the answer to one. */
  readonly pingEveryMs: number
  readonly pingMs: number
  /** The deadline for the next byte of a stream that never falls silent, while its reader wants data. */
  readonly silenceMs: number
  /**
   * The delay before the host waits again for a connection from the sandbox, after one failed. It doubles each time.
   */
  readonly reopenMs: number
  readonly reopenMaxMs: number
  /** The time that a connection from the sandbox waits for another one to end, when the limit is reached. */
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
 * The limit of streams that the host opens to one sandbox. Each may occupy a window of memory. The limit is above what
 * callers may open, so that the host can still make its own requests.
 */
export const MAX_OPEN_STREAMS = 768
/** The limit of connections from the sandbox at a time. */
export const MAX_INBOUND = 128
/**
 * The limit of further connections that wait for one to end. Through them the host counts the connections that it
 * refuses.
 */
export const MAX_SURPLUS = 32
/** The number of unexpected pings, settings frames or early headers after which the host disconnects a sidecar. */
export const MAX_UNSOLICITED = 100
/** The limit of a JSON response. A list contains up to a thousand paths. */
export const MAX_LIST_BYTES = 8 * 1024 * 1024
export const MAX_ERROR_BYTES = 64 * 1024
