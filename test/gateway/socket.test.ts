/**
 * OpenAI Responses over WebSocket from a real sandbox, with a placeholder credential for a login that stays on the
 * host.
 */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { canBe } from '../sandbox-home.ts'
import { selfSigned } from '../wire/certificate.ts'
import { startResponsesSocket } from '../wire/responses-socket.ts'
import type { Conversation } from './converse.fixture.ts'
import { LoginScene, NODE_INSIDE } from './login-scene.ts'
import { ANSWER } from './providers.ts'

const PATIENCE = { timeout: 30_000, interval: 100 }

it('a conversation over one WebSocket uses the real login, is counted per message, and ends with a logout on the host', async () => {
  const certificate = selfSigned(['127.0.0.1'])
  await using server = await startResponsesSocket([{ kind: 'text', text: ANSWER }], certificate)
  await using scene = await LoginScene.open({ identity: canBe('root') ? 'root' : 'user' }, certificate)
  scene.configureAccounts({ codex: { base_url: server.baseUrl, token_url: scene.issuer.tokenUrl } })
  const { access } = scene.logIn('codex')
  const box = await scene.create([], (workspace) =>
    copyFileSync(join(import.meta.dirname, 'converse.fixture.ts'), join(workspace, 'converse.ts')),
  )

  const conversing = box.exec([NODE_INSIDE, '--no-warnings', 'converse.ts'])
  await expect.poll(() => server.messages.length, PATIENCE).toBe(2)
  scene.logOut('codex')
  await box.exec(['touch', 'go'])
  const ran = await conversing
  expect(ran).toMatchObject({ code: 0 })
  const { credential, events } = JSON.parse(ran.stdout) as Conversation

  expect(events).toMatchObject([
    { type: 'response.completed', response: { output: [{ content: [{ text: ANSWER }] }] } },
    { type: 'response.completed', response: { output: [{ content: [{ text: ANSWER }] }] } },
    { type: 'error', status: 401, error: { message: expect.stringContaining('craik:') } },
  ])
  expect(server.upgrades).toMatchObject([
    { headers: { authorization: `Bearer ${access}`, 'chatgpt-account-id': 'the-real-account-number' } },
  ])
  expect(server.messages.map(({ body }) => body.previous_response_id)).toEqual([undefined, 'resp_1'])
  expect(credential).not.toBe(access)
  expect(JSON.stringify([server.upgrades, server.messages])).not.toContain(credential)
  await server.hangUp

  const ends = (await scene.receipts())
    .split('\n')
    .filter((line) => line.includes('"provider_action"') && line.includes('"phase":"end"'))
    .map((line) => JSON.parse(line).body)
  const tokensOf = (end: (typeof ends)[number]) =>
    end.measures.find(({ name }: { readonly name: string }) => name === 'input_tokens')?.value
  // Opening the WebSocket also has a receipt, and costs nothing.
  expect(ends.map(({ status }) => status)).toEqual(['passed', 'passed', 'passed'])
  expect(ends.map(tokensOf).sort()).toEqual([100, 100, undefined])
  expect(await scene.hunt({ said: ran.stdout })).toEqual([])
  expect(await scene.home.run(['receipts', 'verify', '--replay'])).toMatchObject({ code: 0 })
})
