import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { processBackend } from './backend.ts'

let test: TestFolder
beforeEach(() => {
  test = new TestFolder()
  mkdirSync(test.path('project'))
})
afterEach(() => test[Symbol.dispose]())

const backendWith = (PATH: string | undefined) =>
  processBackend({ craikHome: test.path('home'), environment: { PATH } })

/** Something on PATH that answers to its name. */
function standIn(script: string): string {
  mkdirSync(test.path('bin'), { recursive: true })
  writeFileSync(test.path('bin/bwrap'), `#!/bin/sh\n${script}\n`)
  chmodSync(test.path('bin/bwrap'), 0o755)
  return test.path('bin')
}

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

  it('does not trust that it is there: where it cannot make namespaces, nothing is reached', async () => {
    const complaint = 'bwrap: No permissions to create new namespace'
    const path = standIn(
      `[ "$1" = --version ] && echo bubblewrap 0.9.0 && exit; echo "${complaint}" >&2; exit 1`,
    )
    const state = await backendWith(path).probe()
    expect(state.isolation).toBe('none')
    expect(state.reason).toContain('No permissions to create new namespace')
    expect(state.fix).toBeTypeOf('string')
  })

  it('refuses something else of that name', async () => {
    expect((await backendWith(standIn('echo hello')).probe()).isolation).toBe('none')
  })
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
})
