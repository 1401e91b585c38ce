/**
 * A program in a sandbox that holds a conversation over one WebSocket, as Codex does with its login file. It imports
 * nothing of Craik. It sends a message, continues with the id of the answer, waits until a file `go` exists, sends
 * another message, and prints the last event of each.
 */
import { existsSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { join } from 'node:path'

interface LastEvent {
  readonly type: string
  readonly status?: number
  readonly error?: { readonly message: string }
  readonly response?: { readonly id: string; readonly output?: unknown }
}

export interface Conversation {
  /** The credential that was sent. */
  readonly credential: string
  readonly events: readonly LastEvent[]
}

if (import.meta.main) {
  const { tokens } = JSON.parse(readFileSync(join(homedir(), '.codex/auth.json'), 'utf8'))
  const base = String(process.env.ANTHROPIC_BASE_URL).replace(/^http/, 'ws')
  const headers = {
    authorization: `Bearer ${tokens.access_token}`,
    'chatgpt-account-id': tokens.account_id,
    'openai-beta': 'responses_websockets=2026-02-06',
  }
  const socket = new WebSocket(`${base}/backend-api/codex/responses`, { headers } as never)
  await new Promise((open, failed) => {
    socket.addEventListener('open', open)
    socket.addEventListener('error', () => failed(new Error('no WebSocket')))
  })
  const ask = (message: object): Promise<LastEvent> => {
    const { promise, resolve, reject } = Promise.withResolvers<LastEvent>()
    const onMessage = ({ data }: MessageEvent) => {
      const event = JSON.parse(String(data)) as LastEvent
      if (!/^(?:error|response\.(?:completed|failed))$/.test(event.type)) return
      socket.removeEventListener('message', onMessage)
      resolve(event)
    }
    socket.addEventListener('message', onMessage)
    socket.addEventListener('close', () => reject(new Error('closed')))
    socket.send(JSON.stringify({ type: 'response.create', model: 'gpt-x', store: false, ...message }))
    return promise
  }
  const first = await ask({ input: [{ type: 'message', role: 'user', content: 'hi' }] })
  const previous_response_id = first.response?.id
  const second = await ask({
    previous_response_id,
    input: [{ type: 'message', role: 'user', content: 'more' }],
  })
  while (!existsSync('go')) await new Promise((resolve) => setTimeout(resolve, 50))
  const third = await ask({ input: [{ type: 'message', role: 'user', content: 'still there?' }] })
  process.stdout.write(JSON.stringify({ credential: tokens.access_token, events: [first, second, third] }))
  process.exit(0)
}
