/** Tests that the search for leaked secrets finds planted ones. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { huntLeaks } from './hunt.ts'

const SECRET = 'made-up/secret+of some length'
let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-hunt-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true })
})

const hunt = (more: Partial<Parameters<typeof huntLeaks>[0]> = {}) =>
  huntLeaks({ secrets: [SECRET], folders: [folder], processes: false, ...more })

it('finds nothing when there is no secret', () => {
  writeFileSync(join(folder, 'a'), 'made-up secret')
  symlinkSync('/nonexistent', join(folder, 'dangling'))
  expect(hunt({ processes: true, texts: { log: 'nothing' } })).toEqual([])
})

it.each([
  ['as it is', (secret: string) => secret],
  ['in base64', (secret: string) => Buffer.from(secret).toString('base64')],
  ['in base64, after something else', (secret: string) => Buffer.from(`x:${secret}`).toString('base64')],
  [
    'in base64url, after something else',
    (secret: string) => Buffer.from(`xy${secret}`).toString('base64url'),
  ],
  ['in hexadecimal', (secret: string) => Buffer.from(secret).toString('hex')],
  ['in a URL', (secret: string) => `https://example/?key=${encodeURIComponent(secret)}`],
  ['in two bytes per character', (secret: string) => Buffer.from(secret, 'utf16le')],
])('finds a secret in a file, %s', (_, spell) => {
  mkdirSync(join(folder, 'deep/er'), { recursive: true })
  const serialized = Buffer.from(spell(SECRET))
  // Places the secret across the boundary of two chunks.
  writeFileSync(
    join(folder, 'deep/er/planted'),
    Buffer.concat([Buffer.alloc(1024 * 1024 - 7, 'x'), serialized]),
  )
  expect(hunt()).toEqual([`file: ${folder}/deep/er/planted`])
  expect(hunt({ except: [`${folder}/deep`] })).toEqual([])
})

it('searches a folder that is given as a link, such as the root of another process', () => {
  mkdirSync(join(folder, 'real'))
  writeFileSync(join(folder, 'real/planted'), SECRET)
  symlinkSync('real', join(folder, 'link'))
  expect(hunt({ folders: [join(folder, 'link')] })).toEqual([`file: ${folder}/link/planted`])
})

it('finds a secret in the middle of a sparse disk file', () => {
  const path = join(folder, 'disk.img')
  writeFileSync(path, 'begin')
  truncateSync(path, 4 * 1024 ** 3)
  expect(hunt()).toEqual([])
  const file = openSync(path, 'r+')
  writeSync(file, SECRET, 3 * 1024 ** 3)
  closeSync(file)
  expect(hunt()).toEqual([`file: ${path}`])
})

it('finds a secret in a text, in a file name, and in the environment of a process', async () => {
  expect(hunt({ texts: { receipts: `…${SECRET}…` } })).toEqual(['text: receipts'])
  const named = 'a-made-up-secret-name'
  writeFileSync(join(folder, named), '')
  expect(hunt({ secrets: [named] })).toEqual([`name: ${folder}/${named}`])
  const child = spawn('sleep', ['60'], { env: { PLANTED: SECRET } })
  try {
    await once(child, 'spawn')
    expect(hunt({ processes: true })).toEqual([`process ${child.pid}: environ`])
  } finally {
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
})
