/** Checks that programs in every kind of sandbox learn nothing about a credential from the responses that they get. */
import { randomBytes } from 'node:crypto'
import { copyFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { LoginScene, NODE_INSIDE } from '../gateway/login-scene.ts'
import type { HomeInstance, LiveSandbox } from '../sandbox-home.ts'
import { selfSigned } from '../wire/certificate.ts'
import type { Recovered } from './oracle-guest.fixture.ts'
import { ENCODINGS, startUpstream, type Upstream } from './oracle-upstream.ts'

const CERTIFICATE = selfSigned(['127.0.0.1'])
/** The test runs two sandboxes one after the other, with about 200 requests each. */
export const LONG_TIMEOUT = { timeout: 400_000 }
/** The prefix that all keys of a kind share is public. */
const PREFIX = 'sk-made-up-'
const makeKey = () => PREFIX + randomBytes(24).toString('hex')

/** Returns every prefix of a credential, unchanged and in each other encoding. */
function parts(key: string): Record<string, string> {
  const lengths = Array.from({ length: key.length - 1 }, (_, at) => at + 1)
  const { raw, ...others } = ENCODINGS
  const all = (encodings: readonly ((text: string) => string)[]) =>
    encodings.flatMap((encode) => lengths.map((length) => encode(key.slice(0, length)))).join(' ')
  return { raw: all([raw!]), encoded: all(Object.values(others)) }
}

async function sceneWith(
  instance: HomeInstance,
  { origin }: Upstream,
  key: string,
  words: Readonly<Record<string, string>>,
): Promise<{ readonly scene: LoginScene; readonly box: LiveSandbox }> {
  const scene = await LoginScene.open(instance, CERTIFICATE)
  const { host } = new URL(origin)
  scene.configureAccounts({
    'secret/ANTHROPIC_API_KEY': { base_url: `${origin}/anthropic/v1` },
    'secret/OPENAI_API_KEY': { base_url: `${origin}/openai/v1` },
    'secret/GEMINI_API_KEY': { base_url: `${origin}/gemini/v1beta` },
    github: { base_url: origin },
  })
  scene.put('.config/gh/hosts.yml', `${host}:\n    oauth_token: ${key}\n    user: ada\n`)
  for (const name of ['ANTHROPIC_API_KEY', 'OPENAI_API_KEY', 'GEMINI_API_KEY']) {
    const { code, stderr } = await scene.home.run(['secret', 'set', name], { input: key })
    if (code !== 0) throw new Error(stderr)
  }
  const box = await scene.create([], (workspace) => {
    copyFileSync(join(import.meta.dirname, 'oracle-guest.fixture.ts'), join(workspace, 'guest.ts'))
    writeFileSync(join(workspace, 'words.json'), JSON.stringify(words))
  })
  return { scene, box }
}

async function runGuest(box: LiveSandbox, { origin }: Upstream, ...args: readonly string[]): Promise<string> {
  const env = { GITHUB_AT: new URL(origin).host }
  const ran = await box.exec([NODE_INSIDE, '--no-warnings', 'guest.ts', ...args], { env })
  if (ran.code !== 0) throw new Error(`guest.ts: ${ran.stdout.slice(-2000)}${ran.stderr}`)
  return ran.stdout
}

/**
 * The guest guesses character by character. It succeeds if an answer differs when a filter takes the guess for a part
 * of the credential.
 */
export async function recoversNothing(instance: HomeInstance): Promise<void> {
  await using upstream = await startUpstream(CERTIFICATE)
  const key = makeKey()
  const { scene, box } = await sceneWith(instance, upstream, key, {})
  await using _ = scene
  const output = await runGuest(box, upstream, 'recover', PREFIX, String(key.length))
  const found = JSON.parse(output) as Recovered
  expect(found).toEqual({ known: PREFIX, asked: 6 })
}

/**
 * Runs the same program against the same upstream with two credentials of the same length. The program must see no
 * difference.
 */
export async function seesTheSameWithEach(instance: HomeInstance): Promise<void> {
  await using upstream = await startUpstream(CERTIFICATE)
  const keys = [makeKey(), makeKey()]
  const words = parts(keys[0]!)
  const seen: string[][] = []
  const receipts: string[][] = []
  for (const key of keys) {
    const { scene, box } = await sceneWith(instance, upstream, key, words)
    await using _ = scene
    const output = await runGuest(box, upstream, 'compare')
    expect(output).not.toContain(key)
    // A sandbox sees its own placeholder credentials, which are random, because the token route returns them.
    seen.push(output.trim().split('\n'))
    receipts.push(
      (await scene.receipts())
        .trim()
        .split('\n')
        .map(comparable)
        .filter((each) => each !== ''),
    )
  }
  expect(seen[0]!.length).toBeGreaterThan(150)
  expect(seen[1]).toEqual(seen[0])
  expect(receipts[0]!.length).toBeGreaterThan(200)
  expect(receipts[1]!.sort()).toEqual(receipts[0]!.sort())
  expectSeen(seen[0]!)
}

/** Checks that each route received its requests and gave the expected answers. */
function expectSeen(lines: readonly string[]): void {
  const status = (what: string) =>
    (JSON.parse(lines.find((line) => line.startsWith(`["${what}`))!) as unknown[])[1]
  for (const route of ['anthropic', 'responses', 'chat', 'gemini', 'count of tokens', 'github'])
    expect([
      route,
      ...['ok', 'bad', 'missing', '401', '403'].map((mode) => status(`${route}, ${mode}, raw"`)),
    ]).toEqual([route, 200, 400, 404, 401, 403])
  expect(status('socket, ok, raw"')).toBe(101)
  expect(lines.filter((line) => JSON.parse(line)[5] === true).length).toBeGreaterThan(30)
}

/**
 * Returns the parts of a receipt for a use of the credential that are the same in every run: without ids and digests,
 * which are random, and without times. When a provider did not count its output, Craik estimates it from the duration
 * of the call, so that is a time too.
 */
function comparable(line: string): string {
  const { body } = JSON.parse(line)
  const { kind, phase, status, capability, operation, target, decision, metadata, measures = [] } = body
  if (kind === 'sandbox_action' || (capability !== 'model.chat' && capability !== 'login.use')) return ''
  const isTime = ({ name, source }: { readonly name: string; readonly source: string }) =>
    name.endsWith('_ms') || (name === 'output_tokens' && source === 'observed')
  return JSON.stringify([
    kind,
    phase,
    status,
    capability,
    operation,
    target,
    decision?.rule,
    metadata,
    measures.filter((each: Parameters<typeof isTime>[0]) => !isTime(each)),
  ])
}
