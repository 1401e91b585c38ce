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
  /** How long a client may leave what it was sent unread. */
  readonly unreadMs: number
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
  unreadMs: 300_000,
  connectMs: 10_000,
  answerMs: 600_000,
  silenceMs: 300_000,
  callMs: 30 * 60_000,
  socketIdleMs: 30 * 60_000,
  pingMs: 30_000,
}

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
export const SAID_BYTES_MAX = 256 * 1024
