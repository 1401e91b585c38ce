import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { findWithProbe, machine, problemsOf, type TestMachine } from '../accounts.fixture.ts'
import { githubProbe } from './github.ts'

describe('GitHub', () => {
  const HOSTS = 'github.com:\n    user: ada\n    oauth_token: made-up-from-file\n'

  function withGh(here: TestMachine, script: string) {
    here.write('bin/gh', `#!/bin/sh\n${script}\n`, 0o755)
    chmodSync(join(here.userHome, 'bin/gh'), 0o755)
    return here.with({
      environment: {
        PATH: `relative:${join(here.userHome, 'bin')}:/usr/bin:/bin`,
        GITHUB_TOKEN: 'never',
        GH_TOKEN: 'never',
      },
    })
  }

  it('is the token that gh prints, called without the environment’s tokens', async () => {
    using here = machine()
    here.write('.config/gh/hosts.yml', 'github.com:\n    user: ada\n')
    const hostEnvironment = withGh(here, 'echo "gho_$GITHUB_TOKEN$GH_TOKEN"from-$3-$4')
    const [found] = await findWithProbe(githubProbe, hostEnvironment)
    expect(found?.account).toMatchObject({
      id: 'github',
      family: 'github',
      who: 'ada',
      source: '`gh auth token`',
      kind: 'oauth',
      baseUrl: 'https://api.github.com',
      gitBaseUrl: 'https://github.com',
    })
    if (found?.login.kind !== 'key') throw new Error('expected a key')
    expect(await found.login.read(NEVER_ABORTED)).toBe('gho_from---hostname-github.com')
  })

  it('is absent when gh is not logged in, even if an old file has a token', async () => {
    using here = machine()
    here.write('.config/gh/hosts.yml', HOSTS)
    expect(await githubProbe.probe(withGh(here, 'exit 1'), NEVER_ABORTED)).toEqual([])
  })

  it('is read from its file when gh is not installed', async () => {
    using here = machine({ PATH: '/nonexistent' })
    here.write('.config/gh/hosts.yml', HOSTS)
    expect((await findWithProbe(githubProbe, here.hostEnvironment))[0]?.account.source).toBe(
      '~/.config/gh/hosts.yml',
    )
    here.write('.config/gh/hosts.yml', 'github.com: [not: what')
    expect(await problemsOf(githubProbe, here.hostEnvironment)).toHaveLength(1)
  })

  it('of an enterprise is requested by its host', async () => {
    using here = machine()
    const hostEnvironment = {
      ...withGh(here, 'echo "token-for-$4"'),
      overrides: { github: { base_url: 'https://git.example/api/v3' } },
    }
    const [found] = await findWithProbe(githubProbe, hostEnvironment)
    expect(found?.account.gitBaseUrl).toBe('https://git.example')
    if (found?.login.kind === 'key')
      expect(await found.login.read(NEVER_ABORTED)).toBe('token-for-git.example')
  })
})
