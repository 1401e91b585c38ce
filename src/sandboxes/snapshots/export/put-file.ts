/** Uploads a file with one PUT. Only a success status counts as a success. */
import type { Readable } from 'node:stream'
import { Transform } from 'node:stream'
import { request } from 'undici'
import { CraikError } from '../../../errors.ts'
import { createAuthorizedAgent, type DialOptions } from './authorized-dial.ts'
import type { ExportDestination } from './destination.ts'
import { type SigningKeys, signRequest, UNSIGNED } from './sigv4.ts'

/** The most that S3 accepts in one request. */
export const MAX_PUT_BYTES = 5 * 1024 ** 3
/** If the server reads nothing for this time, the upload has failed. */
const STALLED_MS = 2 * 60_000
const MAX_ANSWER_BYTES = 4096
const CONTENT_TYPE = 'application/x-tar'

export interface PutContent {
  readonly bytes: number
  open(): Readable
}

export async function putFile(
  destination: ExportDestination,
  content: PutContent,
  options: DialOptions & {
    readonly keys?: SigningKeys
    readonly now: Date
    readonly until: AbortSignal
  },
): Promise<void> {
  if (content.bytes > MAX_PUT_BYTES)
    throw new CraikError(
      'too_large',
      `cannot send a snapshot of more than ${MAX_PUT_BYTES / 1024 ** 3} GB in one request`,
      {
        hint: 'export the snapshot to a file, and upload the file with the store’s own tool:  craik snapshot export ID FILE',
      },
    )
  const { host, port, path } = destination
  const named = host.includes(':') ? `[${host}]` : host
  const authority = port === 443 ? named : `${named}:${port}`
  const headers = {
    'content-type': CONTENT_TYPE,
    'content-length': String(content.bytes),
  }
  const agent = await createAuthorizedAgent(destination, options)
  const stalled = new AbortController()
  const body = watchForStall(content.open(), () =>
    stalled.abort(
      new CraikError('timeout', `${host} stopped reading the upload`, {
        hint: 'try again later; the part that arrived there is incomplete',
      }),
    ),
  )
  const until = AbortSignal.any([options.until, stalled.signal])
  try {
    const answer = await request(`https://${authority}${path}`, {
      method: 'PUT',
      dispatcher: agent,
      signal: until,
      body,
      headers:
        destination.kind === 's3'
          ? signRequest(
              {
                method: 'PUT',
                host: authority,
                path,
                headers,
                region: destination.region,
                contentSha256: UNSIGNED,
              },
              options.keys!,
              options.now,
            )
          : headers,
    })
    const output = await beginningOf(answer.body)
    if (answer.statusCode < 200 || answer.statusCode > 299) throw refusal(host, answer.statusCode, output)
  } catch (error) {
    if (until.aborted) throw until.reason
    if (error instanceof CraikError) throw error
    throw new CraikError('export_failed', `cannot send the snapshot to ${host} (${codeOf(error)})`, {
      hint: 'check the destination, then try again; the part that arrived there is incomplete',
      cause: error,
    })
  } finally {
    body.destroy()
    await agent.destroy().catch(() => {})
  }
}

/** Returns a stream that calls `onStall` when it was not read for too long. */
function watchForStall(source: Readable, onStall: () => void): Readable {
  let timer = setTimeout(onStall, STALLED_MS)
  const through = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      clearTimeout(timer)
      timer = setTimeout(onStall, STALLED_MS)
      done(null, chunk)
    },
  })
  const over = () => clearTimeout(timer)
  through.once('close', () => {
    over()
    source.destroy()
  })
  source.once('error', (error) => through.destroy(error))
  source.once('end', over)
  return source.pipe(through)
}

async function beginningOf(body: Readable): Promise<string> {
  let output = ''
  try {
    for await (const chunk of body) {
      output += (chunk as Buffer).toString('latin1')
      if (output.length >= MAX_ANSWER_BYTES) break
    }
  } catch {}
  return output.slice(0, MAX_ANSWER_BYTES)
}

/** Repeats a store's response only if it is one of the store's error codes. */
function refusal(host: string, status: number, output: string): CraikError {
  const code = /<Code>([A-Za-z0-9.]{1,64})<\/Code>/.exec(output)?.[1]
  const why =
    status >= 300 && status < 400
      ? `${host} redirected the upload (status ${status}), and Craik does not follow redirects`
      : `${host} refused the snapshot (status ${status}${code === undefined ? '' : `, ${code}`})`
  return new CraikError('export_failed', why, {
    hint: 'check the destination and its permissions, then try again',
    details: { status, ...(code !== undefined && { code }) },
  })
}

function codeOf(error: unknown): string {
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: { readonly code?: unknown } }
  const found = cause?.code ?? code
  return typeof found === 'string' && /^[A-Z0-9_]{1,60}$/.test(found) ? found : 'the connection failed'
}
