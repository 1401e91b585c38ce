import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
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

/** Something that answers to its name; the folder it lies in. */
function standIn(script: string): string {
  mkdirSync(test.path('bin'), { recursive: true })
  writeFileSync(test.path('bin/bwrap'), `#!/bin/sh\n${script}\n`)
  chmodSync(test.path('bin/bwrap'), 0o755)
  return test.path('bin')
}

/** Says what bubblewrap says, and runs the command as it is. */
const PRETENDER = `
[ "$1" = --version ] && echo 'bubblewrap 0.8.0' && exit
echo ran >> "$0.ran"
while [ "$1" != -- ]; do shift; done; shift
exec "$@"`

describe('looking for bubblewrap', () => {
  it('finds the one that works here, with its version', async () => {
    expect(await backendWith(process.env.PATH).probe()).toEqual({
      isolation: 'process',
      version: expect.stringMatching(/^bubblewrap \d+\.\d+/),
    })
  })

  it.each([undefined, '', '/nonexistent', 'bin:.'])(
    'reaches nothing by the path %j, and says what to install',
    async (path) => {
      standIn('exit 0')
      expect(await backendWith(path).probe()).toEqual({
        isolation: 'none',
        reason: 'bubblewrap is not installed',
        fix: 'apt-get install bubblewrap',
      })
    },
  )

  it('never runs one that a project put on the path, before the system’s or alone', async () => {
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

describe('what is called bubblewrap', () => {
  it('is not believed where it cannot make namespaces', async () => {
    const complaint = 'bwrap: No permissions to create new namespace'
    const folder = standIn(
      `[ "$1" = --version ] && echo bubblewrap 0.9.0 && exit; echo "${complaint}" >&2; exit 1`,
    )
    expect(await probeBubblewrap(`${folder}/bwrap`)).toEqual({
      reason: expect.stringContaining('No permissions to create new namespace'),
      fix: expect.any(String),
    })
  })

  it('is not believed when it runs the command and isolates nothing', async () => {
    const folder = standIn(PRETENDER)
    const found = await probeBubblewrap(`${folder}/bwrap`)
    expect(existsSync(`${folder}/bwrap.ran`)).toBe(true)
    expect(found).not.toHaveProperty('bubblewrap')
  })

  it('is not believed either when it also reports as bubblewrap would', async () => {
    const folder = standIn(
      PRETENDER.replace('exec "$@"', `"$@"; code=$?; echo '{ "exit-code": 0 }' >&9; exit $code`),
    )
    expect(await probeBubblewrap(`${folder}/bwrap`)).toMatchObject({
      reason: 'bubblewrap 0.8.0 cannot isolate here: it shares the host’s net namespace',
    })
  })

  it.each(['echo hello', 'exit 0', 'echo a bubblewrap 0.8.0 of sorts', 'echo bubblewrap'])(
    'is refused when it is something else: %s',
    async (script) => {
      expect(await probeBubblewrap(`${standIn(script)}/bwrap`)).toMatchObject({
        reason: 'cannot read the version of bubblewrap',
      })
    },
  )
})

describe('making a place', () => {
  it('never gives a weaker isolation than the one that was asked for', async () => {
    const workspace = test.path('project')
    await expect(backendWith('').create({ isolation: 'process', workspace })).rejects.toMatchObject({
      code: 'unavailable',
      hint: 'apt-get install bubblewrap',
    })
    await expect(
      backendWith(process.env.PATH).create({ isolation: 'container', workspace }),
    ).rejects.toMatchObject({ code: 'unavailable' })
  })

  it('needs nothing for isolation none', async () => {
    const place = await backendWith('').create({ isolation: 'none', workspace: test.path('project') })
    expect(place.isolation).toBe('none')
  })

  it.each(['process', 'none'] as const)('with isolation %s is refused behind a link', async (isolation) => {
    symlinkSync(test.path('project'), test.path('link'))
    mkdirSync(test.path('project/deep'))
    for (const workspace of [test.path('link'), test.path('link/deep')])
      await expect(backendWith(process.env.PATH).create({ isolation, workspace })).rejects.toThrow(
        'the workspace is behind a symbolic link',
      )
  })
})
