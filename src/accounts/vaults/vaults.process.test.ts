import { mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import { machine } from '../accounts.fixture.ts'
import { fileVault } from './file-vault.ts'
import { keychainVault } from './keychain-vault.ts'

describe('a login in a file', () => {
  it('is replaced completely, with its mode, and without leftover files', async () => {
    using here = machine()
    here.write('folder/login.json', '{"old":1}', 0o640)
    const vault = fileVault(join(here.userHome, 'folder/login.json'), 'it')
    const snapshot = await vault.read(NEVER_ABORTED)
    expect(await vault.replace(snapshot!, '{"new":1}', NEVER_ABORTED)).toBe(true)
    expect(here.read('folder/login.json')).toBe('{"new":1}')
    expect(here.mode('folder/login.json')).toBe(0o640)
    expect(readdirSync(join(here.userHome, 'folder'))).toEqual(['login.json'])
  })

  it('is not changed when it was modified, replaced or removed since it was read', async () => {
    using here = machine()
    const path = join(here.userHome, 'login.json')
    const vault = fileVault(path, 'it')
    const change = {
      changed: () => writeFileSync(path, '{"theirs":1}'),
      exchanged: () => {
        // The same bytes in another file still mean that somebody else wrote it.
        writeFileSync(`${path}.new`, '{"old":1}')
        renameSync(`${path}.new`, path)
      },
      removed: () => renameSync(path, `${path}.gone`),
    }
    for (const [how, happen] of Object.entries(change)) {
      here.write('login.json', '{"old":1}')
      const snapshot = await vault.read(NEVER_ABORTED)
      happen()
      expect(await vault.replace(snapshot!, '{"ours":1}', NEVER_ABORTED), how).toBe(false)
    }
    expect(readdirSync(here.userHome).sort()).toEqual(['login.json.gone'])
  })

  it('behind a link is replaced at its target, and the link stays', async () => {
    using here = machine()
    here.write('dotfiles/login.json', '{"old":1}')
    symlinkSync('dotfiles/login.json', join(here.userHome, 'login.json'))
    const vault = fileVault(join(here.userHome, 'login.json'), 'it')
    expect(await vault.replace((await vault.read(NEVER_ABORTED))!, '{"new":1}', NEVER_ABORTED)).toBe(true)
    expect(here.read('dotfiles/login.json')).toBe('{"new":1}')
    symlinkSync('nowhere', join(here.userHome, 'still-a-link'))
    expect(readFileSync(join(here.userHome, 'login.json'), 'utf8')).toBe('{"new":1}')
  })

  it('that is being rewritten in place is read when it is complete again', async () => {
    using here = machine()
    const path = join(here.userHome, 'login.json')
    writeFileSync(path, '')
    setTimeout(() => writeFileSync(path, '{"whole":1}'), 10)
    expect((await fileVault(path, 'it').read(NEVER_ABORTED))?.text).toBe('{"whole":1}')
  })

  it('is read to its end, up to the maximum size of a login', async () => {
    using here = machine()
    const path = join(here.userHome, 'login.json')
    for (const length of [0, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 1024 * 1024]) {
      writeFileSync(path, 'x'.repeat(length))
      expect((await fileVault(path, 'it').read(NEVER_ABORTED))?.text.length ?? 0).toBe(length)
    }
    writeFileSync(path, 'x'.repeat(1024 * 1024 + 1))
    await expect(fileVault(path, 'it').read(NEVER_ABORTED)).rejects.toThrow('larger than 1 MiB')
  })

  it('that is rewritten again and again is read completely or not at all', async () => {
    using here = machine()
    const path = join(here.userHome, 'login.json')
    const whole = '{"whole":1}'
    const seen = new Set<string | undefined>()
    let isDone = false
    const rewriting = (async () => {
      for (let turn = 0; !isDone; turn++) {
        writeFileSync(path, turn % 2 === 0 ? '' : whole)
        await setImmediate()
      }
    })()
    const reads = Array.from({ length: 10 }, async () => {
      for (let at = 0; at < 20; at++) seen.add((await fileVault(path, 'it').read(NEVER_ABORTED))?.text)
    })
    await Promise.all(reads)
    isDone = true
    await rewriting
    seen.delete(undefined)
    expect([...seen]).toEqual([whole])
  })

  it('in a folder that cannot be written is reported before any request', async () => {
    expect(await fileVault('/nonexistent/login.json', 'it').unwritable()).toContain('ENOENT')
  })
})

it('a login in the keychain is replaced through a pipe, and only by a writer that has read the latest', async () => {
  using here = machine()
  here.write(
    'bin/security',
    `#!/bin/sh
printf '%s\\n' "$*" >> "$HOME/argv"
if [ "$1" = find-generic-password ]; then [ -f "$HOME/item" ] || exit 44; cat "$HOME/item"; echo; exit 0; fi
[ "$1" = -i ] || exit 1
read -r line
hex=\${line##* }
printf "$(printf '%s' "$hex" | sed 's/../\\\\x&/g')" > "$HOME/item"
`.replace('#!/bin/sh', '#!/bin/bash'),
    0o755,
  )
  mkdirSync(join(here.userHome, 'unused'))
  const mac = here.with({
    platform: 'darwin',
    environment: { PATH: `${join(here.userHome, 'bin')}:/usr/bin:/bin` },
  })
  const vault = keychainVault({ service: 'A service', account: 'ada' }, mac)
  expect(await vault.read(NEVER_ABORTED)).toBeUndefined()
  here.write('item', '{"old":1}')
  const snapshot = await vault.read(NEVER_ABORTED)
  expect(await vault.replace(snapshot!, '{"new":"made-up-token"}', NEVER_ABORTED)).toBe(true)
  expect((await vault.read(NEVER_ABORTED))?.text).toBe('{"new":"made-up-token"}')
  expect(await vault.replace(snapshot!, '{"late":1}', NEVER_ABORTED)).toBe(false)
  expect(here.read('argv')).not.toMatch(/made-up|6d6164652d7570/)
  await expect(
    vault.replace((await vault.read(NEVER_ABORTED))!, `{"long":"${'x'.repeat(4_000)}"}`, NEVER_ABORTED),
  ).rejects.toThrow('too long')
})
