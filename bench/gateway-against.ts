/** Compares the gateway of this checkout with that of another one: CPU time per call, in turns, within one run. */
import { join, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Pool } from 'undici'
import { type Measured, startFile, startUrl } from './gateway-process.ts'
import { median, type Row, TemporaryFolder } from './measure.ts'

const ROUNDS = 24
const IN_FLIGHT = 16
const PATH = '/p/provider_bench/v1/messages'
/** A greeting, the first and a later request of a coding agent, and a request with an image. */
const SIZES = [
  { name: '100 bytes', bytes: 0, calls: 300 },
  { name: '12 KiB', bytes: 12 * 1024, calls: 300 },
  { name: '120 KiB', bytes: 120 * 1024, calls: 300 },
  { name: '2 MiB', bytes: 2 * 1024 * 1024, calls: 64 },
] as const

/** A call may take up to 15 % more CPU time than in the other checkout. */
const AT_MOST = 1.15

export async function againstRows(folder: string): Promise<Row[]> {
  using temporary = new TemporaryFolder()
  using upstream = await startFile('./gateway-upstream.ts')
  const other = pathToFileURL(join(resolve(folder), 'bench/gateway-craik.ts'))
  using ours = await startFile('./gateway-craik.ts', upstream.origin, join(temporary.path, 'ours'))
  using theirs = await startUrl(other, upstream.origin, join(temporary.path, 'theirs'))
  const rows: Row[] = []
  for (const size of SIZES) rows.push(await compareSize(size, ours, theirs))
  return rows
}

async function compareSize(
  { name, bytes, calls }: (typeof SIZES)[number],
  ours: Measured,
  theirs: Measured,
): Promise<Row> {
  console.error(`    ${name} …`)
  const body = bodyOf(bytes)
  const costs: Record<'ours' | 'theirs', number[]> = { ours: [], theirs: [] }
  for (let round = -1; round < ROUNDS; round++) {
    // The side that begins changes with each round.
    const sides = [['ours', ours] as const, ['theirs', theirs] as const]
    for (const [side, server] of round % 2 === 0 ? sides : sides.reverse()) {
      const costMs = await costOf(server, body, calls)
      if (round >= 0) costs[side].push(costMs)
    }
  }
  const ratios = costs.ours.map((each, at) => each / costs.theirs[at]!)
  return {
    what: `gateway: CPU time per call of all threads, ${name}; of ${ROUNDS} rounds ${percent(Math.min(...ratios))} to ${percent(Math.max(...ratios))}`,
    against: 'the other checkout',
    ours: `${median(costs.ours).toFixed(3)} ms`,
    theirs: `${median(costs.theirs).toFixed(3)} ms`,
    ratio: median(ratios),
    bar: { atMost: AT_MOST },
    command: `npm run bench -- gateway --against FOLDER`,
  }
}

async function costOf(server: Measured, body: string, calls: number): Promise<number> {
  const pool = new Pool(server.origin, { connections: IN_FLIGHT, pipelining: 1 })
  const beforeMs = server.cpuMs()
  let left = calls
  await Promise.all(
    Array.from({ length: IN_FLIGHT }, async () => {
      while (left-- > 0) {
        const headers = { 'content-type': 'application/json' }
        const response = await pool.request({ path: PATH, method: 'POST', headers, body })
        const text = await response.body.text()
        if (response.statusCode !== 200) throw new Error(`answered ${response.statusCode}: ${text}`)
      }
    }),
  )
  await pool.destroy()
  return (server.cpuMs() - beforeMs) / calls
}

/** Returns a conversation of about this many bytes, in turns of about 1 KiB each. */
function bodyOf(bytes: number): string {
  const content = 'The quick brown fox says "hello",\nand jumps. '.repeat(22)
  const turns = Math.max(1, Math.round(bytes / content.length))
  const messages = Array.from({ length: turns }, (_, at) => ({
    role: at % 2 === 0 ? 'user' : 'assistant',
    content: bytes === 0 ? 'say hello' : [{ type: 'text', text: content }],
  }))
  return JSON.stringify({ model: 'm', max_tokens: 1000, messages })
}

function percent(ratio: number): string {
  return `${((ratio - 1) * 100).toFixed(0)} %`
}
