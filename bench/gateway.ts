/** Compares the model gateway with a bare proxy and another gateway: one upstream, one client, in turns. */
import { join } from 'node:path'
import { type Dispatcher, Pool } from 'undici'
import { portkey } from './gateway-portkey.ts'
import { type Listening, startFile } from './gateway-process.ts'
import { formatSpread, median, type Row, type Spread, spread, TemporaryFolder } from './measure.ts'

const COMMAND = 'npm run bench -- gateway'
const IN_FLIGHT = 64
const ROUNDS = 3
const ROUND_REQUESTS = 1000
const SINGLE = 200
const OPEN_STREAMS = 256
const PATH = '/p/provider_bench/v1/messages'
const message = { model: 'm', max_tokens: 1000, messages: [{ role: 'user', content: 'say hello' }] }
const WHOLE = JSON.stringify(message)
const STREAMED = JSON.stringify({ ...message, stream: true })
const FOREVER = JSON.stringify({ ...message, stream: true, system: 'forever' })

interface Side {
  readonly name: string
  readonly server: Listening
  readonly pool: Pool
  readonly headers: Record<string, string>
}

export async function gatewayRows(): Promise<Row[]> {
  using folder = new TemporaryFolder()
  using upstream = await startFile('./gateway-upstream.ts')
  using bareServer = await startFile('./gateway-bare.ts', upstream.origin)
  using oursServer = await startFile('./gateway-craik.ts', upstream.origin, join(folder.path, 'home'))
  const other = await portkey(upstream.origin)
  const side = (name: string, server: Listening, headers: Record<string, string> = {}): Side => ({
    name,
    server,
    headers,
    pool: new Pool(server.origin, { connections: 512, pipelining: 1 }),
  })
  const bare = side('bare', bareServer)
  const ours = side('ours', oursServer)
  const theirs = other && side('portkey', other.server, other.headers)
  const sides = [bare, ours, ...(theirs ? [theirs] : [])]
  try {
    const rates = await allRates(sides)
    const plain = await singles(sides, (each) => measureCall(each, WHOLE))
    const first = await singles(sides, (each) => firstByte(each))
    const memory = [
      await measureOpenStreams(bare),
      await measureOpenStreams(ours),
      theirs && (await measureOpenStreams(theirs)),
    ]
    return [
      rateRow(rates, 'bare', 'a bare node:http + undici proxy', 0.4),
      rateRow(rates, 'portkey', '@portkey-ai/gateway', 10),
      ...latencyRows('one answer at once', plain),
      ...latencyRows('first streamed byte', first),
      memoryRow(memory),
    ]
  } finally {
    for (const { pool } of sides) await pool.destroy()
    other?.server[Symbol.dispose]()
  }
}

async function allRates(sides: readonly Side[]): Promise<Map<string, number>> {
  const rates = new Map(sides.map(({ name }) => [name, [] as number[]]))
  for (let round = -1; round < ROUNDS; round++) {
    for (const each of sides) {
      const count = each.name === 'portkey' ? ROUND_REQUESTS / 10 : ROUND_REQUESTS
      const startedMs = performance.now()
      let left = count
      await Promise.all(
        Array.from({ length: IN_FLIGHT }, async () => {
          while (left-- > 0) await measureCall(each, WHOLE)
        }),
      )
      if (round >= 0) rates.get(each.name)!.push((count / (performance.now() - startedMs)) * 1000)
    }
  }
  return new Map([...rates].map(([name, values]) => [name, median(values)]))
}

async function singles(
  sides: readonly Side[],
  work: (side: Side) => Promise<number>,
): Promise<Map<string, Spread>> {
  const times = new Map(sides.map(({ name }) => [name, [] as number[]]))
  for (let i = -20; i < SINGLE; i++)
    for (const each of sides) {
      const took = await work(each)
      if (i >= 0) times.get(each.name)!.push(took)
    }
  return new Map([...times].map(([name, values]) => [name, spread(values)]))
}

async function measureCall(side: Side, body: string): Promise<number> {
  const startedMs = performance.now()
  const response = await request(side, body)
  const text = await response.body.text()
  if (response.statusCode !== 200) throw new Error(`${side.name} answered ${response.statusCode}: ${text}`)
  return performance.now() - startedMs
}

async function firstByte(side: Side): Promise<number> {
  const startedMs = performance.now()
  const response = await request(side, STREAMED)
  let took = 0
  for await (const _ of response.body) took ||= performance.now() - startedMs
  return took
}

function request({ name, pool, headers }: Side, body: string): Promise<Dispatcher.ResponseData> {
  const path = name === 'portkey' ? '/v1/messages' : PATH
  return pool.request({
    path,
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
}

/** Returns the memory of one open, silent stream, in bytes. */
async function measureOpenStreams(side: Side): Promise<number> {
  const before = side.server.rss()
  const open = await Promise.all(
    Array.from({ length: OPEN_STREAMS }, async () => {
      const { body } = await request(side, FOREVER)
      body.on('error', () => {})
      await new Promise((resolve) => body.once('data', resolve))
      return body
    }),
  )
  const held = side.server.rss() - before
  for (const body of open) body.destroy()
  await new Promise((resolve) => setTimeout(resolve, 500))
  return Math.max(held, 0) / OPEN_STREAMS
}

function rateRow(rates: Map<string, number>, name: string, against: string, atLeast: number): Row {
  const [ours, theirs] = [rates.get('ours')!, rates.get(name)]
  return {
    what: `gateway: requests/s, ${IN_FLIGHT} at once, budget and durable receipts`,
    against,
    ours: `${ours.toFixed(0)}/s`,
    theirs: theirs === undefined ? 'not installed' : `${theirs.toFixed(0)}/s`,
    ratio: theirs === undefined ? undefined : ours / theirs,
    bar: { atLeast },
    command: COMMAND,
  }
}

/** The limit applies to the added time. The row states it as a ratio to the allowed 0.6 ms. */
function latencyRows(what: string, times: Map<string, Spread>): Row[] {
  const [ours, bare] = [times.get('ours')!, times.get('bare')!]
  const added = ours.p50 - bare.p50
  const row = {
    what: `gateway: ${what}, added at p50 (${added.toFixed(2)} ms) over 0.6 ms`,
    against: 'the bare proxy',
    ours: formatSpread(ours),
    theirs: formatSpread(bare),
    ratio: added / 0.6,
    bar: { atMost: 1 },
    command: COMMAND,
  }
  const other = times.get('portkey')
  if (other === undefined) return [row]
  return [
    row,
    {
      ...row,
      what: `gateway: ${what}`,
      against: '@portkey-ai/gateway',
      theirs: formatSpread(other),
      ratio: ours.p50 / other.p50,
      bar: undefined,
    } as Row,
  ]
}

function memoryRow([bare, ours, theirs]: readonly (number | undefined)[]): Row {
  const kib = (bytes: number | undefined) => (bytes === undefined ? '–' : `${(bytes / 1024).toFixed(0)} KiB`)
  return {
    what: `gateway: memory per open stream, ${OPEN_STREAMS} at once`,
    against: `the bare proxy${theirs === undefined ? '' : `; @portkey-ai/gateway ${kib(theirs)}`}`,
    ours: kib(ours),
    theirs: kib(bare),
    ratio: ours! / Math.max(bare!, 1),
    bar: undefined,
    command: COMMAND,
  }
}
