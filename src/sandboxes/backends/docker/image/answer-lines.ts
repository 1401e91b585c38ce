/**
 * Reads the lines of an engine's response to a pull, import or build: its progress, and at the end an id or an error.
 */
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

/** Reads the response to its end. An error includes the last lines of the build's output, because they explain it. */
export async function followAnswer(
  answer: NodeJS.ReadableStream,
  doing: string,
  onLine: (line: AnswerLine) => void,
): Promise<void> {
  const output: string[] = []
  for await (const text of linesOf(answer as Readable)) {
    const line = parseLine(text)
    if (line.stream?.trim()) output.push(oneLine(line.stream))
    if (output.length > KEPT_LINES) output.shift()
    if (line.error !== undefined)
      throw (
        missingPackage(output.join('\n')) ??
        new CraikError('unavailable', `the engine could not ${doing}: ${oneLine(line.error)}`, {
          hint: 'craik doctor',
          details: { engine: 'refused', said: output },
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
      throw new CraikError('unavailable', 'the response of the engine contains a line that is too long')
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
