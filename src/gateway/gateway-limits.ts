/** The limits of one caller of the gateway, and its timeouts. */

export interface GatewayLimits {
  /** Concurrent connections of one caller. */
  readonly connections: number
  /** Concurrent requests of one caller. */
  readonly requests: number
  /** The size of one request body after decompression. Providers accept up to 32 MB. */
  readonly bodyBytes: number
  /** The size of all concurrent request bodies of one caller. */
  readonly heldBytes: number
  /** Until a connection has sent a complete head, and between two requests on it. */
  readonly headMs: number
  /** Until a request's body is complete. */
  readonly bodyMs: number
  /** Until a body is decompressed and scanned. Then the scan thread is terminated. 32 MiB take about 0.3 s. */
  readonly scanMs: number
  /** How long a body waits for the scans of the same sandbox's other bodies. */
  readonly scanWaitMs: number
  /** How long an idle scan thread is kept. */
  readonly scanIdleMs: number
  /** How much is read of a body whose request is refused, so that its client sees the response. */
  readonly discardBytes: number
  readonly discardMs: number
  /** How long a client can leave a response unread. */
  readonly unreadMs: number
  /** If a client delays a call for this long in total, the failure is the client's: the breaker does not count it. */
  readonly slowClientMs: number
  readonly connectMs: number
  /** Until a provider starts its response. */
  readonly answerMs: number
  /** Between two chunks of the response. */
  readonly silenceMs: number
  /** A whole call, from the first byte that is forwarded. */
  readonly callMs: number
  /** How long a WebSocket can be without a request: people think, and tools run. */
  readonly socketIdleMs: number
  /** How often both ends of a WebSocket are pinged. */
  readonly pingMs: number
}

export const GATEWAY_LIMITS: GatewayLimits = {
  connections: 256,
  requests: 128,
  bodyBytes: 32 * 1024 * 1024,
  heldBytes: 128 * 1024 * 1024,
  headMs: 60_000,
  bodyMs: 120_000,
  scanMs: 10_000,
  scanWaitMs: 30_000,
  scanIdleMs: 10_000,
  discardBytes: 4 * 1024 * 1024,
  discardMs: 5_000,
  unreadMs: 300_000,
  slowClientMs: 10_000,
  connectMs: 10_000,
  answerMs: 600_000,
  silenceMs: 300_000,
  callMs: 30 * 60_000,
  socketIdleMs: 30 * 60_000,
  pingMs: 30_000,
}

/** Above this size, one body of a sandbox is read at a time. */
export const LARGE_BODY_BYTES = 1024 * 1024
/** The size of a request's first line and headers. */
export const HEAD_BYTES_MAX = 32 * 1024
export const HEADERS_MAX = 128
/** Queued messages of a WebSocket. Providers accept 16. */
export const WAITING_MAX = 15
/** The number of previous responses on one WebSocket that a request can refer to. */
export const KNOWN_ANSWERS_MAX = 256
/** A response without a stream is read completely before any of it is forwarded. */
export const WHOLE_ANSWER_BYTES_MAX = 32 * 1024 * 1024
/** The size of an upstream's error message. */
export const MESSAGE_BYTES_MAX = 256 * 1024
