import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AnswerLine, followAnswer } from './answer-lines.ts'

async function followed(chunks: readonly (string | Buffer)[]): Promise<AnswerLine[]> {
  const lines: AnswerLine[] = []
  await followAnswer(Readable.from(chunks), 'build an image', (line) => lines.push(line))
  return lines
}

describe('an engine’s answer', () => {
  it('is read whole, however it is cut', async () => {
    const text = '{"stream":"Step 1/2 : FROM a…"}\r\n{"aux":{"ID":"sha256:ab"}}\n{"status":"done"}'
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(Buffer.byteLength(text))), async (cuts) => {
        const bytes = Buffer.from(text)
        const at = [0, ...cuts.toSorted((a, b) => a - b), bytes.length]
        const chunks = at.slice(1).map((end, i) => bytes.subarray(at[i], end))
        expect(await followed(chunks.filter((chunk) => chunk.length > 0))).toEqual([
          { stream: 'Step 1/2 : FROM a…' },
          { aux: { ID: 'sha256:ab' } },
          { status: 'done' },
        ])
      }),
    )
  })

  it('that reports an error is one, with what was said before it', async () => {
    const answer = followed(['{"stream":"E: dpkg was interrupted\\n"}\n{"error":"exit 100\\u001b[1m"}\n'])
    await expect(answer).rejects.toMatchObject({
      code: 'unavailable',
      message: 'the engine could not build an image: exit 100 [1m',
      details: { engine: 'refused', said: ['E: dpkg was interrupted'] },
    })
  })

  it('that Debian lacks a package names it', async () => {
    const answer = followed([
      '{"stream":"E: Unable to locate package nix\\n"}\n{"error":"exit 100\\u001b[1m"}\n',
    ])
    await expect(answer).rejects.toMatchObject({ code: 'not_found', message: 'Debian has no package nix' })
  })

  it('that is no JSON, or a line without an end, is an error', async () => {
    await expect(followed(['<html>\n'])).rejects.toThrow(/not JSON/)
    const chunk = 'x'.repeat(64 * 1024)
    await expect(followed(Array.from({ length: 64 }, () => chunk))).rejects.toThrow(/too long/)
  })
})
