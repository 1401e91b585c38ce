/**
 * The content of a sandbox's workspace at one moment, as the sandbox reports it. Craik parses it as untrusted input.
 */
import { z } from 'zod'
import { CraikError } from '../../errors.ts'
import { quoteName } from '../../lib/safe-tar/entry-names.ts'
import { CHANGE_LIMITS } from './change-limits.ts'
import { foldersOf, linkTarget, workspacePath } from './change-paths.ts'
import { LIST_PROGRAM } from './sandbox-programs.ts'
import type { WorkspaceRunner } from './workspace-runner.ts'

export const SHA256 = /^[0-9a-f]{64}$/

export interface FileEntry {
  readonly kind: 'file'
  readonly bytes: number
  readonly executable: boolean
  /** SHA-256, or for a file too large to read a mark that changes when the file is written. */
  readonly digest: string
  readonly tooLarge?: true
}

export interface LinkEntry {
  readonly kind: 'link'
  readonly target: string
}

/** An entry that is neither a file nor a link, or is unreadable. An unreadable folder hides everything below it. */
interface OtherEntry {
  readonly kind: 'other'
  readonly what: 'pipe' | 'socket' | 'device' | 'unreadable'
}

export type ManifestEntry = FileEntry | LinkEntry | OtherEntry

export interface FileManifest {
  readonly entries: ReadonlyMap<string, ManifestEntry>
  /** Names that are not valid text, in a printable form, up to the limit. */
  readonly unfit: readonly string[]
  readonly unfitCount: number
}

const bytes = z.int().nonnegative()
const flag = z.union([z.literal(0), z.literal(1)])

const line = z.discriminatedUnion('t', [
  z.strictObject({
    t: z.literal('f'),
    p: workspacePath,
    s: bytes,
    x: flag,
    h: z.string().regex(SHA256).optional(),
    m: z
      .string()
      .regex(/^-?\d{1,20}$/)
      .optional(),
  }),
  z.strictObject({ t: z.literal('l'), p: workspacePath, to: linkTarget }),
  z.strictObject({
    t: z.literal('o'),
    p: workspacePath,
    k: z.enum(['pipe', 'socket', 'device', 'unreadable']),
  }),
  z.strictObject({ t: z.literal('u'), b: z.base64().max(CHANGE_LIMITS.pathBytes * 2) }),
])

/**
 * Reads a manifest within the time limit. Nothing in the sandbox should write meanwhile: a file that changes can be
 * listed in its old state.
 */
export async function takeManifest(inside: WorkspaceRunner, until: AbortSignal): Promise<FileManifest> {
  const listing = new Listing()
  await inside.runNode(
    {
      doing: 'listing the workspace in the sandbox',
      script: LIST_PROGRAM,
      input: '',
      timeoutMs: CHANGE_LIMITS.listingMs,
      onOutput: (chunk) => listing.push(chunk),
    },
    until,
  )
  return listing.end()
}

/** Parses the lines as they arrive, with any chunk boundaries. */
class Listing {
  readonly #entries = new Map<string, ManifestEntry>()
  readonly #unfit: string[] = []
  #unfitCount = 0
  #bytes = 0
  #pending: Buffer = Buffer.alloc(0)

  push(chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > CHANGE_LIMITS.listingBytes) throw tooMuch()
    let all = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk])
    for (let end = all.indexOf(10); end !== -1; end = all.indexOf(10)) {
      if (end > CHANGE_LIMITS.lineBytes) throw lie('a line is too long')
      this.#take(all.toString('utf8', 0, end))
      all = all.subarray(end + 1)
    }
    if (all.length > CHANGE_LIMITS.lineBytes) throw lie('a line is too long')
    this.#pending = Buffer.from(all)
  }

  end(): FileManifest {
    if (this.#pending.length > 0) throw lie('it is truncated')
    for (const path of this.#entries.keys()) {
      const inTheWay = foldersOf(path).find((folder) => this.#entries.has(folder))
      if (inTheWay !== undefined) throw lie(`${quoteName(inTheWay)} contains files but is not a folder`)
    }
    return { entries: this.#entries, unfit: this.#unfit, unfitCount: this.#unfitCount }
  }

  #take(text: string): void {
    const parsed = line.safeParse(parseJson(text))
    if (!parsed.success) {
      const [issue] = parsed.error.issues
      throw lie(`${issue?.path.join('.') ?? ''} ${issue?.message ?? ''}`.trim())
    }
    if (this.#entries.size + this.#unfitCount >= CHANGE_LIMITS.entries) throw tooMuch()
    const reply = parsed.data
    if (reply.t === 'u') {
      this.#unfitCount++
      if (this.#unfit.length < CHANGE_LIMITS.named)
        this.#unfit.push(quoteName(Buffer.from(reply.b, 'base64').toString()))
      return
    }
    if (this.#entries.has(reply.p)) throw lie(`${quoteName(reply.p)} is listed twice`)
    this.#entries.set(reply.p, entryOf(reply))
  }
}

type ManifestLine = Exclude<z.infer<typeof line>, { t: 'u' }>

function entryOf(reply: ManifestLine): ManifestEntry {
  if (reply.t === 'l') return { kind: 'link', target: reply.to }
  if (reply.t === 'o') return { kind: 'other', what: reply.k }
  const { s, x, h, m } = reply
  const file = { kind: 'file', bytes: s, executable: x === 1 } as const
  if (h !== undefined && s <= CHANGE_LIMITS.fileBytes) return { ...file, digest: h }
  return { ...file, digest: `${s}:${m ?? 'unknown'}`, tooLarge: true }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw lie('a line is not JSON')
  }
}

function lie(why: string): CraikError {
  return new CraikError('boundary_failed', `the sandbox sent an invalid list of its workspace: ${why}`, {
    hint: 'stop the processes in the sandbox, which may have changed the list, then try again',
  })
}

function tooMuch(): CraikError {
  const most = CHANGE_LIMITS.entries.toLocaleString('en')
  return new CraikError(
    'too_large',
    `the workspace in the sandbox has more than ${most} files, or names that are too long`,
    {
      hint: 'remove unneeded files in the sandbox, such as caches, then try again',
    },
  )
}
