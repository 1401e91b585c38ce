import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { processBackend } from './backend.ts'
import { processCommands } from './command-backend.ts'
import { probeBubblewrap } from './find-bubblewrap.ts'

let test: TestFolder
beforeEach(() => {
  test = new TestFolder()
  mkdirSync(test.path('project'))
})
afterEach(() => test[Symbol.dispose]())

const backendWith = (PATH: string | undefined) =>
  processCommands({ craikHome: test.path('home'), environment: { PATH } })

/** Writes a fake `bwrap` with this script. Returns its folder. */
function standIn(script: string): string {
  mkdirSync(test.path('bin'), { recursive: true })
  writeFileSync(test.path('bin/bwrap'), `#!/bin/sh\n${script}\n`)
  chmodSync(test.path('bin/bwrap'), 0o755)
  return test.path('bin')
}

/** A fake that prints what bubblewrap prints and runs the command without isolation. */
const PRETENDER = `
[ "$1" = --version ] && echo 'bubblewrap 0.8.0' && exit
echo ran >> "$0.ran"
while [ "$1" != -- ]; do shift; done; shift
exec "$@"`

describe('the search for bubblewrap', () => {
  it('finds one that works on this host, with its version', async () => {
    expect(await backendWith(process.env.PATH).probe()).toEqual({
      isolation: 'process',
      version: expect.stringMatching(/^bubblewrap \d+\.\d+/),
    })
  })

  it.each([undefined, '', '/nonexistent', 'bin:.'])(
    'finds nothing on the path %j and reports what to install',
    async (path) => {
      standIn('exit 0')
      expect(await backendWith(path).probe()).toEqual({
        isolation: 'none',
        reason: 'bubblewrap is not installed',
        fix: 'apt-get install bubblewrap',
      })
    },
  )

  it.each([
    ['sandboxes', processBackend],
    ['commands', processCommands],
  ])('finds one for %s that the user installs later', async (_, make) => {
    vi.useFakeTimers({ toFake: ['performance'] })
    try {
      const environment = { PATH: '' }
      const { probe } = make({ craikHome: test.path('home'), environment })
      expect(await probe()).toMatchObject({ fix: 'apt-get install bubblewrap' })
      environment.PATH = process.env.PATH!
      vi.advanceTimersByTime(10_000)
      expect(await probe()).not.toMatchObject({ fix: 'apt-get install bubblewrap' })
    } finally {
      vi.useRealTimers()
    }
  })

  it('never runs one that a project put on the path, neither before the system’s nor alone', async () => {
    const folder = standIn(PRETENDER)
    const first = await backendWith(`${folder}:${process.env.PATH}`).probe()
    expect(first).toEqual(await backendWith(process.env.PATH).probe())
    expect(await backendWith(folder).probe()).toEqual({
      isolation: 'none',
      reason: 'the bubblewrap on PATH is not the system’s own; Craik trusts no other',
      fix: 'apt-get install bubblewrap',
    })
    expect(existsSync(`${folder}/bwrap.ran`)).toBe(false)
  })
})

describe('a program called bubblewrap', () => {
  it('is not trusted if it cannot create namespaces', async () => {
    const complaint = 'bwrap: No permissions to create new namespace'
    const folder = standIn(
      `[ "$1" = --version ] && echo bubblewrap 0.9.0 && exit; echo "${complaint}" >&2; exit 1`,
    )
    expect(await probeBubblewrap(`${folder}/bwrap`)).toEqual({
      reason: expect.stringContaining('No permissions to create new namespace'),
      fix: expect.any(String),
    })
  })

  it('is not trusted if it runs the command without isolation', async () => {
    const folder = standIn(PRETENDER)
    const found = await probeBubblewrap(`${folder}/bwrap`)
    expect(existsSync(`${folder}/bwrap.ran`)).toBe(true)
    expect(found).not.toHaveProperty('bubblewrap')
  })

  it('is not trusted even if it also reports the status as bubblewrap would', async () => {
    const folder = standIn(
      PRETENDER.replace('exec "$@"', `"$@"; code=$?; echo '{ "exit-code": 0 }' >&9; exit $code`),
    )
    expect(await probeBubblewrap(`${folder}/bwrap`)).toMatchObject({
      reason: 'bubblewrap 0.8.0 cannot isolate here: it shares the host’s net namespace',
    })
  })

  it.each(['echo hello', 'exit 0', 'echo a bubblewrap 0.8.0 of sorts', 'echo bubblewrap'])(
    'is refused if its version cannot be read: %s',
    async (script) => {
      expect(await probeBubblewrap(`${standIn(script)}/bwrap`)).toMatchObject({
        reason: 'cannot read the version of bubblewrap',
      })
    },
  )
})

describe('creating a sandbox', () => {
  it('never gives a weaker isolation than requested', async () => {
    const workspace = test.path('project')
    await expect(backendWith('').create({ isolation: 'process', workspace })).rejects.toMatchObject({
      code: 'unavailable',
      hint: 'apt-get install bubblewrap',
    })
    await expect(
      backendWith(process.env.PATH).create({ isolation: 'container', workspace }),
    ).rejects.toMatchObject({ code: 'unavailable' })
  })

  it('needs no program for isolation none', async () => {
    const place = await backendWith('').create({ isolation: 'none', workspace: test.path('project') })
    expect(place.isolation).toBe('none')
  })

  it.each(['process', 'none'] as const)(
    'with isolation %s refuses a workspace behind a link',
    async (isolation) => {
      symlinkSync(test.path('project'), test.path('link'))
      mkdirSync(test.path('project/deep'))
      for (const workspace of [test.path('link'), test.path('link/deep')])
        await expect(backendWith(process.env.PATH).create({ isolation, workspace })).rejects.toThrow(
          'the workspace is behind a symbolic link',
        )
    },
  )
})
