/**
 * Reads the home of a running sandbox through its boundary. The sandbox reports all of it, including numbers and names.
 */
import { CraikError, type ErrorCode } from '../../errors.ts'
import type { FileBody } from '../../operator/api/bodies.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { readFile } from '../../sdk/transfer.ts'
import { INSIDE } from '../../sidecar/protocol.ts'
import { type TranscriptFile, type TranscriptSource, UnreadableTranscript } from '../../transcripts/source.ts'
import { TRANSCRIPT_LIMITS } from '../../transcripts/transcript-limits.ts'

const PAGE_ENTRIES = 1000
const UNFIT: ReadonlyMap<string, string> = new Map([
  ['link', 'is a symbolic link, which Craik does not follow'],
  ['fifo', 'is a pipe'],
  ['socket', 'is a socket'],
  ['device', 'is a device'],
])

export function sandboxHome(client: ApiClient, sandbox: string, signal: AbortSignal): TranscriptSource {
  return {
    list: (folder, depth) => listFiles(folder, depth),
    async *read(path, maxBytes) {
      try {
        yield* readFile(client, sandbox, `${INSIDE.home}/${path}`, { signal, length: maxBytes })
      } catch (error) {
        if (!isNotThere(error)) throw error
        if (error.code === 'refused_inside')
          throw new UnreadableTranscript('cannot be read by the sandbox user', { cause: error })
      }
    },
  }

  async function* listFiles(folder: string, depth: number): AsyncGenerator<TranscriptFile> {
    for await (const { path, type, bytes, modified_at_ms } of entriesOf(folder)) {
      const name = path.slice(path.lastIndexOf('/') + 1)
      if (name === '' || name === '.' || name === '..') continue
      const below = `${folder}/${name}`
      const file = { path: below, bytes: whole(bytes), modifiedAtMs: whole(modified_at_ms) }
      if (type === 'file') yield file
      else if (type !== 'folder') yield { ...file, unreadableReason: UNFIT.get(type) ?? 'is not a file' }
      else if (depth > 0) yield* listFiles(below, depth - 1)
    }
  }

  async function* entriesOf(folder: string): AsyncGenerator<FileBody> {
    let after: string | undefined
    // A page without a next one is the last. The limit stops a sandbox that reports pages without end.
    for (let page = 0; page * PAGE_ENTRIES < TRANSCRIPT_LIMITS.folderEntries; page++) {
      const requested = { signal, limit: PAGE_ENTRIES, ...(after !== undefined && { after }) }
      const found = await client.files.list(sandbox, `${INSIDE.home}/${folder}`, requested).catch((error) => {
        if (isNotThere(error)) return undefined
        throw error
      })
      yield* found?.entries ?? []
      if (found?.next === undefined) return
      after = found.next
    }
  }
}

const NOT_THERE: readonly ErrorCode[] = ['not_found', 'conflict', 'refused_inside', 'usage', 'too_large']

/** Returns whether the file is gone, is another kind of entry now, or cannot be read by the user of the sandbox. */
function isNotThere(error: unknown): error is CraikError {
  return error instanceof CraikError && NOT_THERE.includes(error.code)
}

function whole(number: number): number {
  return Number.isSafeInteger(number) && number >= 0 ? number : 0
}
