/**
 * A program in a sandbox that calls models as the CLIs do: with the credentials in their login files or variables, at
 * the addresses that it finds there. It imports nothing of Craik.
 *
 * - `node ask.ts '[{"form":"claude"}]'` prints the replies.
 * - `node ask.ts --at-once 16 '{"form":"claude"}'` makes that many calls at once.
 * - `node ask.ts --until-stop NAME '{"form":"claude"}'` makes calls until a file `stop` exists, and prints failures.
 */
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

export interface GatewayRequest {
  readonly form: 'claude' | 'anthropic_key' | 'codex' | 'code_assist' | 'responses' | 'chat' | 'gemini'
  readonly stream?: boolean
  readonly model?: string
  /** Replaces the program's own credential. Empty: sends none. */
  readonly credential?: string
}

export interface Reply {
  readonly status: number
  readonly text: string
  /** The credential that was sent. */
  readonly credential: string
}

const PAUSE_MS = 15

const env = (name: string) => process.env[name] ?? `no ${name}`

function fileInHome(path: string): Record<string, never> {
  try {
    return JSON.parse(readFileSync(join(homedir(), path), 'utf8'))
  } catch {
    return {}
  }
}

const OWN: Readonly<Record<GatewayRequest['form'], () => string>> = {
  claude: () => text(fileInHome('.claude/.credentials.json').claudeAiOauth, 'accessToken'),
  anthropic_key: () => env('ANTHROPIC_API_KEY'),
  codex: () => text(fileInHome('.codex/auth.json').tokens, 'access_token'),
  code_assist: () => text(fileInHome('.gemini/oauth_creds.json'), 'access_token'),
  responses: () => env('OPENAI_API_KEY'),
  chat: () => env('OPENAI_API_KEY'),
  gemini: () => env('GEMINI_API_KEY'),
}

function text(value: unknown, name: string): string {
  return (value as Record<string, string> | undefined)?.[name] ?? 'none'
}

const bearer = (credential: string): Record<string, string> =>
  credential === '' ? {} : { authorization: `Bearer ${credential}` }
const MESSAGES = [{ role: 'user', content: 'hi' }]
const CONTENTS = [{ role: 'user', parts: [{ text: 'hi' }] }]

function requestOf({ form, stream = false, model = 'claude-x' }: GatewayRequest, credential: string) {
  const verb = stream ? 'streamGenerateContent?alt=sse' : 'generateContent'
  switch (form) {
    case 'claude':
    case 'anthropic_key':
      return {
        url: `${env('ANTHROPIC_BASE_URL')}/v1/messages`,
        headers: {
          'anthropic-version': '2023-06-01',
          'anthropic-beta': 'interleaved-thinking-2025-05-14',
          ...(form === 'claude' ? bearer(credential) : { 'x-api-key': credential }),
        },
        body: { model, max_tokens: 100, messages: MESSAGES, stream },
      }
    case 'codex': {
      const account = text(fileInHome('.codex/auth.json').tokens, 'account_id')
      return {
        url: `${env('ANTHROPIC_BASE_URL')}/backend-api/codex/responses`,
        headers: { ...bearer(credential), 'chatgpt-account-id': account },
        body: { model: 'gpt-x', input: MESSAGES, store: false, stream },
      }
    }
    case 'code_assist':
      return {
        url: `${env('CODE_ASSIST_ENDPOINT')}/v1internal:${verb}`,
        headers: bearer(credential),
        body: { model: 'gemini-x', project: 'p', request: { contents: CONTENTS } },
      }
    case 'responses':
      return {
        url: `${env('OPENAI_BASE_URL')}/responses`,
        headers: bearer(credential),
        body: { model: 'gpt-x', input: MESSAGES, store: false, stream, max_output_tokens: 100 },
      }
    case 'chat':
      return {
        url: `${env('OPENAI_BASE_URL')}/chat/completions`,
        headers: bearer(credential),
        body: { model: 'gpt-x', messages: MESSAGES, max_tokens: 100, stream },
      }
    case 'gemini':
      return {
        url: `${env('GOOGLE_GEMINI_BASE_URL')}/v1beta/models/gemini-x:${verb}`,
        headers: { 'x-goog-api-key': credential },
        body: { contents: CONTENTS },
      }
  }
}

async function ask(question: GatewayRequest, program = 'ask'): Promise<Reply> {
  const { credential = OWN[question.form]() } = question
  const { url, headers, body } = requestOf(question, credential)
  const response = await fetch(url, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json', 'user-agent': program },
    body: JSON.stringify(body),
  })
  return { status: response.status, text: await response.text(), credential }
}

const say = (line: string) => process.stdout.write(`${line}\n`)

async function askUntilStop(program: string, question: GatewayRequest): Promise<void> {
  while (!existsSync('stop')) {
    try {
      const { status, text } = await ask(question, program)
      if (status !== 200) say(`status ${status} ${text.slice(0, 300)}`)
    } catch (error) {
      say(`broken ${String((error as Error).cause ?? error)}`)
    }
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  }
  say('stopped')
}

if (import.meta.main && process.argv[2] === '--until-stop') {
  await askUntilStop(process.argv[3]!, JSON.parse(process.argv[4]!) as GatewayRequest)
} else if (import.meta.main && process.argv[2] === '--at-once') {
  const question = JSON.parse(process.argv[4]!) as GatewayRequest
  const replies = Array.from({ length: Number(process.argv[3]) }, () => ask(question))
  process.stdout.write(JSON.stringify(await Promise.all(replies)))
} else if (import.meta.main) {
  const questions = JSON.parse(process.argv[2]!) as GatewayRequest[]
  const replies: Reply[] = []
  for (const question of questions) replies.push(await ask(question))
  process.stdout.write(JSON.stringify(replies))
}
