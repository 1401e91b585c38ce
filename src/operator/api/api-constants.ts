/**
 * The names and limits that the API's server and its clients share. It has no schema, so that a client loads no other
 * module for it.
 */

/** Server and client must have the same number. */
export const API_VERSION = 1

export const FRAMES_TYPE = 'application/vnd.craik.frames'
export const LINES_TYPE = 'application/jsonl'
export const BYTES_TYPE = 'application/octet-stream'

export const HEADER = {
  /** The grant for the decision about the request. Without it, Craik searches for a usable grant. */
  grant: 'craik-grant',
  /** The receipt for the start of a job. */
  receipt: 'craik-receipt',
  /** `1` when this request started the job, `0` when the job existed. */
  created: 'craik-created',
  /** The size of the whole file in bytes. */
  size: 'craik-size',
  /** The digest of the whole snapshot. */
  digest: 'craik-digest',
} as const

/** After `101 Switching Protocols`, the connection is the raw byte stream of a port. */
export const PORT_PROTOCOL = 'craik-tcp'

/** The name of a sandbox in a path: its id or its name. */
export const SANDBOX_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/
export const VOLUME_NAME = /^[a-z0-9][a-z0-9-]{0,62}$/

export const API_LIMITS = {
  /** The limit for a JSON body. The longest argv and environment fit. */
  jsonBytes: 1024 * 1024,
  /** The limit for each stream of a buffered exec. */
  bufferedBytes: 1024 * 1024,
  /** The limit for the input of a buffered exec. */
  bufferedInputBytes: 512 * 1024,
  argvItems: 4096,
  argvBytes: 512 * 1024,
  environmentNames: 256,
  environmentBytes: 256 * 1024,
  pathBytes: 4096,
  destinationBytes: 2048,
  nameBytes: 64,
  listEntries: 1000,
  mounts: 8,
  volumes: 8,
  timeoutMs: 7 * 24 * 3600_000,
  graceMs: 60_000,
  outputBytes: 16 * 1024 * 1024 * 1024,
  columns: 1000,
} as const
