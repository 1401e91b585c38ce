/**
 * The real agents' command-line programs, from npm, in process sandboxes: mounted, mounted again, and added to a
 * running sandbox.
 */
import { cpSync, lstatSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERRORS } from '../../src/errors.ts'
import { FakeNpm } from '../../src/harnesses/packages/fake-npm.fixture.ts'
import { PACKAGE_NAMES, readHarness, readPackage } from '../../src/harnesses/packages/harness-catalogue.ts'
import { harnessStore } from '../../src/harnesses/packages/harness-store.ts'
import { harnessesFolder } from '../../src/sandboxes/harness-package.ts'
import { TestHome } from '../craik.ts'
import { HARNESSES_MS, readyHarnesses, shareHarnesses } from '../harness-image.ts'
import { expectAllVersions, VERSIONS } from '../harness-versions.ts'

interface Made {
  readonly id: string
  readonly harnesses: readonly { readonly name: string; readonly version: string }[]
}

describe('agents’ programs in process sandboxes', () => {
  let test: TestHome
  const exec = (sandbox: string, ...argv: string[]) => test.run(['sandbox', 'exec', sandbox, '--', ...argv])

  beforeAll(async () => {
    test = new TestHome()
    await shareHarnesses(test.home)
  }, HARNESSES_MS)
  afterAll(async () => {
    await test?.run(['sandbox', 'delete', '--all', '--yes'])
    await test?.run(['supervisor', 'stop'])
    test?.[Symbol.dispose]()
  })

  it('are all present and read-only when they were requested, and need no network', async () => {
    const made = await test.json<Made>(['sandbox', 'create', '--name', 'all', '--harness', 'all'])
    expect(made.harnesses.map(({ name }) => name).sort()).toEqual([
      'claude-code',
      'codex',
      'gemini',
      'kimi',
      'opencode',
    ])
    await expectAllVersions((...argv) => exec('all', ...argv))
    const { code, stderr } = await exec('all', 'sh', '-c', 'echo x >/opt/craik-harnesses/codex/bin/codex')
    expect(code).not.toBe(0)
    expect(stderr).toMatch(/Read-only|Permission denied/)
  })

  it('are recorded, and mounted again when a stopped sandbox resumes', async () => {
    await test.json(['sandbox', 'stop', 'all'])
    await test.json(['sandbox', 'resume', 'all'])
    expect((await exec('all', 'codex', '--version')).stdout.trim()).toBe(VERSIONS.codex)
    const { harnesses } = await test.json<Made>(['sandbox', 'show', 'all'])
    expect(harnesses).toContainEqual({ name: 'codex', version: '0.166.0' })
    const receipts = await test.run(['receipts', 'list', '--format', 'json', '--limit', '200'])
    expect(receipts.stdout).toContain(readHarness('codex').id)
  })

  it('that were not requested are missing', async () => {
    await test.json<Made>(['sandbox', 'create', '--name', 'one', '--harness', 'kimi'])
    expect((await exec('one', 'kimi', '--version')).stdout.trim()).toBe(VERSIONS.kimi)
    expect((await exec('one', 'ls', '/opt/craik-harnesses')).stdout).toBe('kimi\nnpm\n')
    expect((await exec('one', 'claude', '--version')).code).toBe(127)
  })

  it('are added to a running sandbox, completely and once', async () => {
    await test.json<Made>(['sandbox', 'create', '--name', 'bare'])
    const add = () =>
      test.json<{ added: boolean; at: string }>(['harness', 'add', 'kimi', '--sandbox', 'bare'])
    const first = await add()
    expect(first).toMatchObject({ added: true, at: '/workspace/home/.local/share/craik-harnesses/kimi' })
    expect((await exec('bare', 'kimi', '--version')).stdout.trim()).toBe(VERSIONS.kimi)
    expect(await add()).toMatchObject({ added: false })
    // Craik replaces a program that was damaged in the sandbox.
    await exec(
      'bare',
      'sh',
      '-c',
      'cd ~/.local/share/craik-harnesses/kimi && rm -f harness-manifest.json bin/kimi',
    )
    expect(await add()).toMatchObject({ added: true })
    expect((await exec('bare', 'kimi', '--version')).stdout.trim()).toBe(VERSIONS.kimi)
    expect((await exec('bare', 'ls', '-A', `${first.at}/..`)).stdout).toBe('kimi\n')
  })

  it('are refused where nothing could mount them, and with an unknown name', async () => {
    const host = await test.run(['sandbox', 'create', '--isolation', 'none', '--harness', 'kimi'])
    expect([host.code, host.stderr]).toEqual([2, expect.stringContaining('uses the host’s programs')])
    const none = await test.run(['sandbox', 'create', '--harness', 'cursor'])
    expect([none.code, none.stderr]).toEqual([2, expect.stringContaining('claude-code, codex, gemini')])
  })

  it('are listed with their details, and prune keeps them while a sandbox mounts them', async () => {
    interface Listed {
      readonly name: string
      readonly license: string
      readonly installed: { readonly bytes: number } | null
    }
    const listed = await test.json<Listed[]>(['harness', 'list'])
    expect(listed.map(({ name, license }) => `${name}: ${license}`)).toEqual([
      'claude-code: proprietary',
      'codex: Apache-2.0',
      'gemini: Apache-2.0',
      'kimi: MIT',
      'opencode: MIT',
    ])
    for (const { installed } of listed) expect(installed?.bytes).toBeGreaterThan(20_000_000)
    const shown = await test.json<Listed>(['harness', 'info', 'codex'])
    const programs = ['codex', 'codex-acp', 'codex-acp-untrusting', 'codex-untrusting']
    expect(shown).toMatchObject({ programs, wire: 'openai-responses' })
    const pruned = await test.json<{ removed: { id: string }[]; kept: { why: string }[] }>([
      'harness',
      'prune',
    ])
    // Prune rightly removes packages that an earlier recipe left in the folder that the tests keep.
    const ofThisBuild = PACKAGE_NAMES.map((name) => readPackage(name).id)
    expect(pruned.removed.filter(({ id }) => ofThisBuild.includes(id))).toEqual([])
    expect(pruned.kept.map(({ why }) => why)).toEqual(Array(6).fill('a sandbox needs it'))
  })

  it('of a home of an earlier version are installed again when its sandbox is resumed, and the files in the home are not used', async () => {
    using other = new TestHome()
    const [kimi] = await readyHarnesses(['kimi'])
    await shareHarnesses(other.home, ['kimi'])
    await other.json(['sandbox', 'create', '--name', 'later', '--harness', 'kimi'])
    await other.json(['sandbox', 'stop', 'later'])
    // Restores the state of the earlier version, in which packages were in the home, and then changes them as a user
    // could.
    const link = harnessesFolder({ craikHome: other.home, environment: { HOME: other.folder } })
    expect(lstatSync(link).isSymbolicLink()).toBe(true)
    rmSync(link)
    const earlier = join(other.home, 'cache/harnesses')
    for (const id of harnessStore.ids(['kimi']))
      cpSync(join(kimi!.folder, '..', id), join(earlier, id), { recursive: true })
    const changed = join(earlier, kimi!.id, 'bin/kimi')
    rmSync(changed)
    writeFileSync(changed, '#!/bin/sh\necho changed\n', { mode: 0o555 })

    // No program listens on this port.
    const offline = {
      npm_config_registry: 'http://127.0.0.1:9',
      npm_config_cache: other.path('npm-cache'),
      npm_config_fetch_retries: '0',
    }
    const refused = await other.run(['sandbox', 'resume', 'later'], { env: offline })
    expect(refused.code).toBe(ERRORS.unavailable.exit)
    expect(refused.stderr).toContain('registry is unreachable')

    const ready = dirname(kimi!.folder)
    new FakeNpm(other.path('bin')).setScript(
      `for id in ${harnessStore.ids(['kimi']).join(' ')}; do
        cmp -s package-lock.json ${ready}/$id/package-lock.json && cp -r ${ready}/$id/node_modules .
      done; test -d node_modules`,
    )
    const env = { PATH: `${other.path('bin')}:${process.env.PATH}` }
    expect(await other.run(['sandbox', 'resume', 'later'], { env })).toMatchObject({ code: 0 })
    const { stdout } = await other.run(['sandbox', 'exec', 'later', '--', 'kimi', '--version'])
    expect(stdout.trim()).toBe(VERSIONS.kimi)
    await other.run(['sandbox', 'delete', '--all', '--yes'])
    await other.run(['supervisor', 'stop'])
  })
})
