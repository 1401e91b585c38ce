import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { wrapperOf } from './wrappers.ts'

it('runs a program with unchanged arguments, from a folder with any name', () => {
  const folder = mkdtempSync(join(tmpdir(), 'craik wrapper '))
  try {
    for (const name of ['bin', 'node_modules/a']) mkdirSync(join(folder, name), { recursive: true })
    writeFileSync(join(folder, 'node_modules/a/run'), '#!/bin/sh\nprintf "<%s>" "$@"\n')
    writeFileSync(join(folder, 'bin/run'), wrapperOf({ native: { x64: 'node_modules/a/run' } }, 'x64'))
    for (const path of ['bin/run', 'node_modules/a/run']) chmodSync(join(folder, path), 0o755)
    const args = ['a b', '', '$(touch x)', '*', "'"]
    const expected = args.map((arg) => `<${arg}>`).join('')
    expect(spawnSync(join(folder, 'bin/run'), args, { encoding: 'utf8' }).stdout).toBe(expected)
    const options = { encoding: 'utf8', env: { PATH: `${folder}/bin:/usr/bin:/bin` } } as const
    expect(spawnSync('/bin/sh', ['-c', 'run "$@"', 'sh', ...args], options).stdout).toBe(expected)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

it('runs a Node file with the sandbox’s own Node, and sets the path of its other program unless it is already set', () => {
  const program = { node: 'node_modules/acp/index.js', programs: { CODEX_PATH: 'codex' } }
  expect(wrapperOf(program, 'arm64').split('\n')).toEqual([
    '#!/bin/sh',
    `export CODEX_PATH="\${CODEX_PATH:-\${0%/*}/codex}"`,
    `exec /opt/craik/node "\${0%/*}/../node_modules/acp/index.js" "$@"`,
    '',
  ])
})

it('lets a tool provide the sandbox’s own Node', () => {
  expect(wrapperOf({ runtime: true }, 'x64')).toBe('#!/bin/sh\nexec /opt/craik/node "$@"\n')
})
