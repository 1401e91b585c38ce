/** Reads a secret's value from the user or a pipe, never from the command line, which others can see. */
import { setTimeout as delay } from 'node:timers/promises'
import { CraikError } from '../errors.ts'
import { HiddenLine, type LineState, MARK_PASTES, PASTE_MODE_OFF } from './hidden-line.ts'
import { MAX_VALUE_BYTES, stripNewline } from './secret.ts'

/** A value may be followed by one line break. */
const MAX_INPUT_BYTES = MAX_VALUE_BYTES + 2
/** How long the rest of a refused paste is discarded, so that the shell does not run it. */
const SWALLOW_MS = 200

export interface ValueStreams {
  readonly stdin: NodeJS.ReadStream
  /** Where the prompt goes, because standard output is for results. */
  readonly stderr: NodeJS.WritableStream
  readonly signal: AbortSignal
}

/** Returns the value without one trailing line break. It is empty when there was no input. */
export async function readValue(streams: ValueStreams, name: string): Promise<Buffer> {
  const input = streams.stdin.isTTY ? await readTyped(streams, name) : await readPiped(streams)
  return stripNewline(input)
}

async function readPiped({ stdin, signal }: ValueStreams): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  const stop = () => stdin.destroy(interruptedError())
  signal.addEventListener('abort', stop, { once: true })
  try {
    signal.throwIfAborted()
    for await (const chunk of stdin as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      length += chunk.length
      if (length > MAX_INPUT_BYTES) throw tooLong()
    }
    return Buffer.concat(chunks)
  } catch (error) {
    throw signal.aborted ? interruptedError() : error
  } finally {
    signal.removeEventListener('abort', stop)
    for (const chunk of chunks) chunk.fill(0)
  }
}

async function readTyped({ stdin, stderr, signal }: ValueStreams, name: string): Promise<Buffer> {
  const line = new HiddenLine(MAX_INPUT_BYTES)
  const { promise, resolve } = Promise.withResolvers<LineState>()
  let over = false
  const end = (state: LineState) => {
    over = true
    resolve(state)
  }
  const onData = (chunk: Buffer) => {
    if (over) return
    const state = line.feed(chunk)
    chunk.fill(0)
    if (state !== 'typing') end(state)
  }
  const onStop = () => end('interrupted')

  stdin.setRawMode(true)
  stderr.write(`${MARK_PASTES}  value of ${name} (not shown): `)
  stdin.on('data', onData).once('end', onStop)
  signal.addEventListener('abort', onStop, { once: true })
  if (signal.aborted) onStop()
  let state: LineState | undefined
  try {
    state = await promise
    if (state === 'interrupted') throw interruptedError()
    if (state !== 'entered') await delay(SWALLOW_MS)
    if (state === 'several_lines') throw severalLines(name)
    if (state === 'too_long') throw tooLong()
    return line.finish()
  } finally {
    line.wipe()
    signal.removeEventListener('abort', onStop)
    stdin.off('data', onData).off('end', onStop).pause()
    stdin.setRawMode(false)
    // The code that reports an interruption also ends the line.
    stderr.write(state === 'interrupted' ? PASTE_MODE_OFF : `${PASTE_MODE_OFF}\n`)
  }
}

function interruptedError(): CraikError {
  return new CraikError('interrupted', 'interrupted; nothing was stored')
}

function tooLong(): CraikError {
  return new CraikError(
    'too_large',
    `a secret value can have at most ${MAX_VALUE_BYTES} bytes; nothing was stored`,
  )
}

function severalLines(name: string): CraikError {
  return new CraikError('usage', 'the value has several lines; nothing was stored', {
    hint: `read it from its file:  craik secret set ${name} < FILE`,
  })
}
