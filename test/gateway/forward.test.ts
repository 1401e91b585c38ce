/**
 * Real logins in a sandbox whose user chose `forward`: in their files and nowhere else. A sandbox with `none` has no
 * logins.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { SandboxBody } from '../../src/operator/api/bodies.ts'
import { canBe, type LiveSandbox } from '../sandbox-home.ts'
import { FILES, LoginScene, type Program } from './login-scene.ts'
import { ANSWER } from './providers.ts'

const identity = canBe('root') ? 'root' : 'user'
const ISSUER = 'oauth2.googleapis.com'

/** Returns the login file in the sandbox's home, or `undefined` if none exists. */
async function readLoginIn(box: LiveSandbox, program: Program) {
  const path = `/workspace/home/${FILES[program]}`
  const ran = await box.exec(['sh', '-c', `cat ${path} && stat -c '%a %U %h' ${path} >&2`])
  return ran.code === 0 ? { content: ran.stdout, stat: ran.stderr.trim() } : undefined
}

it('forward: each login is in its file, readable only by the owner, and nowhere else', async () => {
  await using scene = await LoginScene.open({ identity })
  const { home } = scene
  const programs = ['claude', 'codex', 'gemini'] as const
  for (const program of programs) scene.logIn(program)
  const original = (program: Program) => readFileSync(scene.fileOf(program), 'utf8')

  const box = await scene.create(['--credentials', 'forward', '--name', 'trusted'])
  expect(box.body.notice).toContain(`cannot forward the Gemini login: its program checks it at ${ISSUER}`)
  for (const program of ['claude', 'codex'] as const)
    expect(await readLoginIn(box, program)).toEqual({ content: original(program), stat: '400 agent 1' })
  expect(await readLoginIn(box, 'gemini')).toBeUndefined()
  const events = await home.run(['sandbox', 'logs', 'trusted'])
  expect(events.stdout).toContain('logins_left_out')

  const allowed = await home.run(['egress', 'allow', ISSUER, '--sandbox', 'trusted'])
  expect(allowed).toMatchObject({ code: 0 })
  expect(await scene.refreshLogins(box)).toEqual(['anthropic_token', 'openai_token', 'gemini_token'])
  expect(await readLoginIn(box, 'gemini')).toEqual({ content: original('gemini'), stat: '400 agent 1' })
  expect((await home.json<SandboxBody>(['sandbox', 'show', 'trusted'])).notice).toBeNull()
  const passing = await box.exec(['sh', '-c', 'ls -A /run/secrets; stat -f -c %T /run/secrets'])
  expect(passing).toMatchObject({ code: 0, stdout: 'tmpfs\n' })

  const [reply] = await scene.ask(box, [{ form: 'claude' }])
  expect(reply).toMatchObject({ status: 200, text: expect.stringContaining(ANSWER) })
  expect(reply!.credential).toBe(JSON.parse(original('claude')).claudeAiOauth.accessToken)

  const searchedLocations = programs.map((program) => `/workspace/home/${FILES[program]}`)
  const disk = join(home.home, 'sandboxes', box.id, 'disk.img')
  const inside = await scene.hunt()
  expect(inside.filter((found) => found !== `file: ${disk}`)).toHaveLength(searchedLocations.length)
  const elsewhere = await scene.hunt({}, searchedLocations)
  expect(elsewhere.filter((found) => found !== `file: ${disk}`)).toEqual([])
  const message = (await scene.receipts()).split('\n').filter((line) => line.includes('"logins":"forward"'))
  expect(message.map((line) => JSON.parse(line).body.operation)).toEqual(['install', 'install', 'create'])

  await home.json(['sandbox', 'snapshot', 'trusted', '--name', 'kept'])
  const copies = [
    await home.json<SandboxBody>(['sandbox', 'fork', 'trusted', '--name', 'fork']),
    await home.json<SandboxBody>([
      'sandbox',
      'create',
      '--from',
      'kept',
      '--credentials',
      'none',
      '--name',
      'made',
    ]),
  ]
  for (const { credentials } of copies) expect(credentials).toBe('none')
  for (const name of ['fork', 'made']) {
    const looked = [
      'sandbox',
      'exec',
      name,
      '--no-stdin',
      '--',
      'sh',
      '-c',
      `ls ${searchedLocations.join(' ')}; ls ask.ts`,
    ]
    expect(await home.run(looked)).toMatchObject({ code: 0, stdout: 'ask.ts\n' })
  }
  await box.delete()
  expect(scene.roots()).toHaveLength(2)
  expect(await scene.hunt()).toEqual([])
})

it('none: the sandbox contains nothing of the logins, and a model call is denied with a receipt', async () => {
  await using scene = await LoginScene.open({ identity })
  for (const program of ['claude', 'codex', 'gemini'] as const) scene.logIn(program)
  const box = await scene.create(['--credentials', 'none'])
  for (const program of ['claude', 'codex', 'gemini'] as const)
    expect(await readLoginIn(box, program)).toBeUndefined()
  const gateway = 'http://127.0.0.1:8118'
  const environment = { ANTHROPIC_BASE_URL: gateway, CODE_ASSIST_ENDPOINT: gateway }
  const questions = JSON.stringify(
    ['claude', 'codex', 'code_assist'].map((form) => ({ form, credential: '' })),
  )
  const ran = await box.exec(['/opt/craik/node', 'ask.ts', questions], { env: environment })
  const replies = JSON.parse(ran.stdout) as { readonly status: number }[]
  expect(replies.map(({ status }) => status)).toEqual([403, 403, 403])
  expect(scene.providers.take()).toEqual([])
  const denials = (await scene.receipts())
    .split('\n')
    .filter((line) => line.includes('"denial"') && line.includes('"model.chat"'))
  expect(denials).toHaveLength(3)
  expect(await scene.hunt()).toEqual([])
})
