import { Readable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AnswerLine, followAnswer } from './answer-lines.ts'

async function followChunks(chunks: readonly (string | Buffer)[]): Promise<AnswerLine[]> {
  const lines: AnswerLine[] = []
  await followAnswer(Readable.from(chunks), 'build an image', (line) => lines.push(line))
  return lines
}

describe('an engine’s response', () => {
  it('is read completely, wherever the chunks end', async () => {
    const text = '{"stream":"Step 1/2 : FROM a…"}\r\n{"aux":{"ID":"sha256:ab"}}\n{"status":"done"}'
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(Buffer.byteLength(text))), async (cuts) => {
        const bytes = Buffer.from(text)
        const at = [0, ...cuts.toSorted((a, b) => a - b), bytes.length]
        const chunks = at.slice(1).map((end, i) => bytes.subarray(at[i], end))
        expect(await followChunks(chunks.filter((chunk) => chunk.length > 0))).toEqual([
          { stream: 'Step 1/2 : FROM a…' },
          { aux: { ID: 'sha256:ab' } },
          { status: 'done' },
        ])
      }),
    )
  })

  it('with an error becomes one, together with the output before it', async () => {
    const answer = followChunks(['{"stream":"E: dpkg was interrupted\\n"}\n{"error":"exit 100\\u001b[1m"}\n'])
    await expect(answer).rejects.toMatchObject({
      code: 'unavailable',
      message: 'the engine could not build an image: exit 100 [1m',
      details: { engine: 'refused', said: ['E: dpkg was interrupted'] },
    })
  })

  it('names the package that Debian does not have', async () => {
    const answer = followChunks([
      '{"stream":"E: Unable to locate package nix\\n"}\n{"error":"exit 100\\u001b[1m"}\n',
    ])
    await expect(answer).rejects.toMatchObject({ code: 'not_found', message: 'Debian has no package nix' })
  })

  it('without JSON, or without an end of its last line, is an error', async () => {
    await expect(followChunks(['<html>\n'])).rejects.toThrow(/not JSON/)
    const chunk = 'x'.repeat(64 * 1024)
    await expect(followChunks(Array.from({ length: 64 }, () => chunk))).rejects.toThrow(/too long/)
  })
})
