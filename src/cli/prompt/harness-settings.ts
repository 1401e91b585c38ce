/**
 * Writes a harness's settings in a sandbox if there are none, or only those that Craik wrote before. Other settings
 * stay.
 */
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { generatedContents, type Harness, type HarnessContext } from '../../harnesses/harness.ts'
import type { ApiClient } from '../../sdk/client.ts'
import { readFile, writeFile } from '../../sdk/transfer.ts'

/** Larger than any settings that Craik writes. */
const MAX_BYTES = 256 * 1024

export async function putSettings(
  client: ApiClient,
  sandbox: string,
  homeInside: string,
  harness: Harness,
  harnessContext: HarnessContext,
  until: AbortSignal,
): Promise<void> {
  for (const { path, content } of harness.settings(harnessContext)) {
    const inside = `${homeInside}/${path}`
    const there = await contentOf(client, sandbox, inside, until)
    if (there === content) continue
    if (there !== undefined && !generatedContents(harness, harnessContext, path).has(there)) continue
    const parent = inside.slice(0, inside.lastIndexOf('/'))
    await client.files.mkdir(sandbox, parent, { parents: true, signal: until })
    await writeFile(client, sandbox, inside, sourceOf(content), { signal: until })
  }
}

async function contentOf(
  client: ApiClient,
  sandbox: string,
  path: string,
  until: AbortSignal,
): Promise<string | undefined> {
  try {
    const { bytes } = await client.files.stat(sandbox, path, { signal: until })
    if (bytes > MAX_BYTES) return ''
    let text = ''
    for await (const chunk of readFile(client, sandbox, path, { signal: until })) text += chunk.toString()
    return text
  } catch (error) {
    if (error instanceof CraikError && error.code === 'not_found') return undefined
    throw error
  }
}

function sourceOf(content: string) {
  const bytes = Buffer.from(content)
  return {
    bytes: bytes.length,
    mode: 0o600,
    open: (offset: number) => Readable.from([bytes.subarray(offset)]),
  }
}
