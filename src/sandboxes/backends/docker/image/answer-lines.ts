/** The lines that an engine answers with while it pulls, imports or builds: its progress, and at last an id or an error. */
import type { Readable } from 'node:stream'
import { CraikError } from '../../../../errors.ts'
import { missingPackage } from './packages.ts'

export interface AnswerLine {
  readonly stream?: string
  readonly status?: string
  readonly error?: string
  readonly aux?: { readonly ID?: string }
}

const MAX_LINE_CHARS = 1024 * 1024
const SHOWN_CHARS = 300
const KEPT_LINES = 20

/** Reads to the end. The last words of what was built are told with an error, because they say what it was. */
export async function followAnswer(
  answer: NodeJS.ReadableStream,
  doing: string,
  onLine: (line: AnswerLine) => void,
): Promise<void> {
  const said: string[] = []
  for await (const text of linesOf(answer as Readable)) {
    const line = parseLine(text)
    if (line.stream?.trim()) said.push(oneLine(line.stream))
    if (said.length > KEPT_LINES) said.shift()
    if (line.error !== undefined)
      throw (
        missingPackage(said.join('\n')) ??
        new CraikError('unavailable', `the engine could not ${doing}: ${oneLine(line.error)}`, {
          hint: 'craik doctor',
          details: { engine: 'refused', said },
        })
      )
    onLine(line)
  }
}

async function* linesOf(answer: Readable): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of answer.setEncoding('utf8')) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop()!
    for (const part of parts) if (part.trim() !== '') yield part
    if (rest.length > MAX_LINE_CHARS)
      throw new CraikError('unavailable', 'the engine sent a line that is too long')
  }
  if (rest.trim() !== '') yield rest
}

function parseLine(text: string): AnswerLine {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return {}
    const { stream, status, error, aux } = value as Record<string, unknown>
    const id = (aux as { ID?: unknown } | undefined)?.ID
    return {
      ...(typeof stream === 'string' && { stream }),
      ...(typeof status === 'string' && { status }),
      ...(typeof error === 'string' && { error }),
      ...(typeof id === 'string' && { aux: { ID: id } }),
    }
  } catch (cause) {
    throw new CraikError('unavailable', 'the engine’s response is not JSON', { hint: 'craik doctor', cause })
  }
}

function oneLine(text: string): string {
  return text
    .replaceAll(/\p{C}+/gu, ' ')
    .trim()
    .slice(-SHOWN_CHARS)
}
