/** How much one caller may ask of the gateway, and how long anything waits. */

export interface GatewayLimits {
  /** Of one caller, at once. */
  readonly connections: number
  /** Requests that are being answered, of one caller. */
  readonly requests: number
  /** Of one request, after decompression. Providers take up to 32 MB. */
  readonly bodyBytes: number
  /** Of all requests of one caller that are being answered. */
  readonly heldBytes: number
  /** Until a connection has sent a whole head, and between two requests on it. */
  readonly headMs: number
  /** Until a request's body is whole. */
  readonly bodyMs: number
  /** Until a body is unpacked and scanned; then the thread that does it is ended. 32 MiB take about 0.3 s. */
  readonly scanMs: number
  /** How long a body waits for others of the same sandbox that are being read. */
  readonly scanWaitMs: number
  /** How long the thread that reads bodies is kept without one. */
  readonly scanIdleMs: number
  /** Of a request that is refused before its body was read: so much more is read, so that its client sees the answer. */
  readonly discardBytes: number
  readonly discardMs: number
  /** How long a client may leave what it was sent unread. */
  readonly unreadMs: number
  /** A client that keeps a call waiting for so long in all is why the call fails: the breaker does not count it. */
  readonly slowClientMs: number
  readonly connectMs: number
  /** Until a provider answers at all. */
  readonly answerMs: number
  /** Between two pieces of its answer. */
  readonly silenceMs: number
  /** All of a call, from the first byte that is sent on. */
  readonly callMs: number
  /** How long nothing may be asked on a WebSocket: people think, and tools run. */
  readonly socketIdleMs: number
  /** How often both ends of a WebSocket are asked whether they are there. */
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

/** Of bodies larger than this one sandbox has one read at a time. */
export const LARGE_BODY_BYTES = 1024 * 1024
/** Of a request's first line and headers. */
export const HEAD_BYTES_MAX = 32 * 1024
export const HEADERS_MAX = 128
/** Messages of a WebSocket that wait for the one before them; providers take 16. */
export const WAITING_MAX = 15
/** Answers of one WebSocket that may be referred to. */
export const KNOWN_ANSWERS_MAX = 256
/** An answer that comes at once is read whole before any of it is passed on. */
export const WHOLE_ANSWER_BYTES_MAX = 32 * 1024 * 1024
/** A refusal, in its own words. */
export const MESSAGE_BYTES_MAX = 256 * 1024
