/** The size and time limits of one egress connection. */

export interface EgressLimits {
  /** Concurrent tunnels and requests of one caller. */
  readonly connectionsPerCaller: number
  readonly lookupMs: number
  readonly connectMs: number
  /** Until the TLS client hello is complete. */
  readonly helloMs: number
  /** Without a byte in either direction, also when the client does not read. */
  readonly idleMs: number
  /** The same limit after one side has closed its sending half. */
  readonly halfOpenMs: number
  readonly totalMs: number
  /** How often open connections are checked against the rules. */
  readonly recheckMs: number
}

export const DEFAULT_EGRESS_LIMITS: EgressLimits = {
  connectionsPerCaller: 256,
  lookupMs: 10_000,
  connectMs: 15_000,
  helloMs: 60_000,
  idleMs: 10 * 60_000,
  halfOpenMs: 2 * 60_000,
  totalMs: 12 * 3600_000,
  recheckMs: 2_000,
}

/** For the HTTP server in front of the proxy: small request heads, short timeouts, strict parsing. */
export const SERVER_OPTIONS = {
  insecureHTTPParser: false,
  requireHostHeader: true,
  maxHeaderSize: 32 * 1024,
  headersTimeout: 20_000,
  // A body has no deadline: `idleMs` ends a stalled one.
  requestTimeout: 0,
  connectionsCheckingInterval: 5_000,
  keepAliveTimeout: 30_000,
} as const

export const MAX_HEADERS = 200
