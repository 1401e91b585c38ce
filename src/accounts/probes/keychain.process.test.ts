import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { findWithProbe, machine, type TestMachine } from '../accounts.fixture.ts'
import { claudeCodeProbe } from './claude-code.ts'
import { codexProbe } from './codex.ts'

const CLAUDE = JSON.stringify({
  claudeAiOauth: { accessToken: 'made-up-access', expiresAt: 1_900_000_000_000 },
})

describe('the macOS keychain', () => {
  /** Stores values in files named after service and account. Like the real `security`, it reads commands from stdin. */
  const SECURITY = `#!/bin/sh
store="$HOME/keychain"; mkdir -p "$store"
if [ "$1" = find-generic-password ]; then
  file="$store/$(printf '%s' "$3" | tr ' /|' ___).$(printf '%s' "$5" | tr ' /|' ___)"
  [ -f "$file" ] || exit 44
  cat "$file"; echo; exit 0
fi
exit 1
`
  function onMac(here: TestMachine) {
    here.write('bin/security', SECURITY, 0o755)
    return here.with({
      platform: 'darwin',
      environment: { PATH: `${join(here.userHome, 'bin')}:/usr/bin:/bin`, USER: 'ada' },
    })
  }

  it('contains Claude Code’s login when there is no file, and is read on macOS only', async () => {
    using here = machine()
    here.write('keychain/Claude_Code-credentials.ada', CLAUDE)
    const mac = onMac(here)
    const [found] = await findWithProbe(claudeCodeProbe, mac)
    expect(found?.account).toMatchObject({
      id: 'claude-code',
      source: 'macOS keychain, “Claude Code-credentials”',
    })
    expect(await claudeCodeProbe.probe({ ...mac, platform: 'linux' }, NEVER_ABORTED)).toEqual([])
    here.write('keychain/Claude_Code-credentials.ada', Buffer.from(CLAUDE).toString('hex'))
    expect(await findWithProbe(claudeCodeProbe, mac)).toHaveLength(1)
  })

  it('without an item means that nobody is logged in', async () => {
    using here = machine()
    expect(await claudeCodeProbe.probe(onMac(here), NEVER_ABORTED)).toEqual([])
    expect(await codexProbe.probe(onMac(here), NEVER_ABORTED)).toEqual([])
  })
})
