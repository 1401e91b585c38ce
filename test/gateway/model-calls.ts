/** The requirements for model calls from every kind of sandbox. */
import { expect } from 'vitest'
import type { GatewayRequest } from './ask.fixture.ts'
import type { LoginScene } from './login-scene.ts'
import { ANSWER, type Service } from './providers.ts'

const SERVICES: Readonly<Record<GatewayRequest['form'], Service>> = {
  claude: 'anthropic',
  anthropic_key: 'anthropic',
  codex: 'codex',
  code_assist: 'code-assist',
  responses: 'openai',
  chat: 'openai',
  gemini: 'gemini',
}
const LOGINS = ['claude', 'codex', 'code_assist'] as const
const KEYS = ['anthropic_key', 'responses', 'chat', 'gemini'] as const

const bothWays = (forms: readonly GatewayRequest['form'][]): GatewayRequest[] =>
  forms.flatMap((form) => [{ form }, { form, stream: true }])

/**
 * Uses the logins first, then the keys when the logins are gone, and then a login that is back, refused and renewed.
 */
export async function checkModelCalls(scene: LoginScene): Promise<void> {
  const { providers } = scene
  const reals: Record<string, string> = {
    claude: scene.logIn('claude').access,
    codex: scene.logIn('codex').access,
    code_assist: scene.logIn('gemini').access,
  }
  const box = await scene.create()
  const other = await scene.create()
  const reply: Record<string, string> = {}
  const expectAll = async (questions: readonly GatewayRequest[]) => {
    const replies = await scene.ask(box, questions)
    const calls = providers.take()
    for (const [at, { form, stream = false }] of questions.entries()) {
      const { status, text, credential } = replies[at]!
      const call = calls[at]!
      expect({ form, stream, status, text }).toMatchObject({ status: 200 })
      expect(text).toContain(ANSWER)
      expect(text.startsWith('{')).toBe(!stream)
      expect(call).toMatchObject({ service: SERVICES[form], status: 200 })
      expect(JSON.stringify(call)).not.toContain(credential)
      expect(JSON.stringify(call.headers)).toContain(reals[form])
      expect(credential).not.toContain(reals[form])
      if (form === 'claude')
        expect(call.headers['anthropic-beta']).toBe('interleaved-thinking-2025-05-14,oauth-2025-04-20')
      if (form === 'codex') expect(call.headers['chatgpt-account-id']).toBe('the-real-account-number')
      reply[form] = text
    }
    expect(calls).toHaveLength(questions.length)
    return replies
  }

  const replies = await expectAll(bothWays(LOGINS))
  const foreign = LOGINS.map((form, at) => ({ form, credential: replies[2 * at]!.credential }))
  for (const { status } of await scene.ask(other, foreign)) expect(status).toBe(401)
  expect(providers.take()).toEqual([])

  reals.anthropic_key = await scene.setKey('ANTHROPIC_API_KEY', 'anthropic')
  reals.responses = reals.chat = await scene.setKey('OPENAI_API_KEY', 'openai')
  reals.gemini = await scene.setKey('GEMINI_API_KEY', 'gemini')
  for (const program of ['claude', 'codex', 'gemini'] as const) scene.logOut(program)
  for (const { status } of await scene.ask(box, foreign)) expect(status).toBe(401)
  expect(providers.take()).toEqual([])
  await scene.refreshLogins(box)
  await expectAll(bothWays(KEYS))

  reals.claude = scene.logIn('claude').access
  expect(await scene.refreshLogins(box)).toContain('anthropic_token')
  await expectAll(bothWays(['claude']))

  scene.issuer.expire()
  expect(await scene.ask(box, [{ form: 'claude' }])).toMatchObject([{ status: 200 }])
  expect(providers.take().map(({ status }) => status)).toEqual([401, 200])
  expect(scene.issuer.refreshes).toHaveLength(1)
  const { access: expired } = scene.logIn('claude', -1)
  expect(await scene.ask(box, [{ form: 'claude' }])).toMatchObject([{ status: 200 }])
  const renewed = providers.take()
  expect(renewed.map(({ status }) => status)).toEqual([200])
  expect(JSON.stringify(renewed)).not.toContain(expired)
  expect(scene.issuer.refreshes).toHaveLength(2)

  expect(scene.roots()).toHaveLength(2)
  expect(await scene.hunt(reply)).toEqual([])
  const verified = await scene.home.run(['receipts', 'verify', '--replay'])
  expect(verified).toMatchObject({ code: 0 })
}
