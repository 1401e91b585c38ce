import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { LoginFile } from '../protocol.ts'
import { TestHost } from '../sidecar.fixture.ts'

let host: TestHost
beforeEach(async () => {
  host = await TestHost.start()
})
afterEach(async () => {
  await host[Symbol.asyncDispose]()
})

const put = (...files: LoginFile[]) => host.json('PUT', '/logins', { files })
const inHome = (path: string) => join(host.folder, path)
const LOGIN = { name: 'anthropic_token', to: '.claude/.credentials.json', content: '{"made":"up"}' }

describe('logins', () => {
  it('are installed with their exact bytes, readable by their owner alone, and are nowhere else', async () => {
    expect(await put(LOGIN)).toMatchObject({ status: 200 })
    const location = inHome(LOGIN.to)
    expect(readFileSync(location, 'utf8')).toBe(LOGIN.content)
    expect(statSync(location).mode & 0o777).toBe(0o400)
    expect(readdirSync(inHome('run/secrets'))).toEqual([])
    expect(readdirSync(inHome('.claude'))).toEqual(['.credentials.json'])
  })

  it('replace whatever was there, but not the target of a link', async () => {
    await put(LOGIN)
    expect(await put({ ...LOGIN, content: 'newer' })).toMatchObject({ status: 200 })
    expect(readFileSync(inHome(LOGIN.to), 'utf8')).toBe('newer')
    mkdirSync(inHome('.codex'))
    writeFileSync(inHome('kept'), 'kept')
    symlinkSync(inHome('kept'), inHome('.codex/auth.json'))
    await put({ name: 'openai_token', to: '.codex/auth.json', content: 'x' })
    expect(readFileSync(inHome('kept'), 'utf8')).toBe('kept')
    expect(readFileSync(inHome('.codex/auth.json'), 'utf8')).toBe('x')
  })

  it('are complete when several requests install them at the same time', async () => {
    const requests = Array.from({ length: 20 }, () => put(LOGIN))
    expect((await Promise.all(requests)).map(({ status }) => status)).toEqual(requests.map(() => 200))
    expect(readFileSync(inHome(LOGIN.to), 'utf8')).toBe(LOGIN.content)
    expect(readdirSync(inHome('run/secrets'))).toEqual([])
  })

  it('are not installed in a folder that is a link', async () => {
    mkdirSync(inHome('workspace/seen'), { recursive: true })
    symlinkSync(inHome('workspace/seen'), inHome('.claude'))
    expect(await put(LOGIN)).toMatchObject({ status: 409 })
    expect(readdirSync(inHome('workspace/seen'))).toEqual([])
    symlinkSync('/', inHome('.config'))
    expect(await put({ name: 'gh_token', to: '.config/gh/hosts.yml', content: 'x' })).toMatchObject({
      status: 409,
    })
  })

  it('are removed when they have no content', async () => {
    await put(LOGIN)
    expect(await put({ ...LOGIN, content: null })).toMatchObject({ status: 200 })
    expect(existsSync(inHome(LOGIN.to))).toBe(false)
    expect(await put({ ...LOGIN, content: null })).toMatchObject({ status: 200 })
  })

  it('can include a setting, which never replaces an existing file', async () => {
    const setting = { name: 'gh_config', to: '.config/gh/config.yml', content: 'a: 1\n', setting: true }
    expect(await put(setting)).toMatchObject({ status: 200 })
    expect(statSync(inHome(setting.to)).mode & 0o777).toBe(0o600)
    expect(await put({ ...setting, content: 'b: 2\n' })).toMatchObject({ status: 200 })
    expect(readFileSync(inHome(setting.to), 'utf8')).toBe('a: 1\n')
  })

  it('leave no file behind when they cannot be installed', async () => {
    writeFileSync(inHome('.claude'), 'a file')
    expect(await put(LOGIN)).toMatchObject({ status: 409 })
    expect(existsSync(inHome('run/secrets'))).toBe(false)
  })

  it.each([
    [{ ...LOGIN, to: '../outside' }],
    [{ ...LOGIN, to: '/etc/passwd' }],
    [{ ...LOGIN, to: '' }],
    [{ ...LOGIN, name: '../x' }],
    [{ ...LOGIN, content: 7 } as never],
    [null as never],
  ])('are refused when they are not valid: %j', async (file) => {
    expect(await put(file)).toMatchObject({ status: 400 })
  })
})
