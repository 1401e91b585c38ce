import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { checkpointText, formatVkey, signNote } from './note.ts'
import { openNote, parseVkey } from './verifier/signed-notes.ts'

// The example of golang.org/x/mod/sumdb/note, the reference implementation of signed notes.
const GO_VKEY = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW'
const GO_SEED = Buffer.from('AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz', 'base64').subarray(1)
const GO_TEXT =
  "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
const GO_NOTE = `${GO_TEXT}\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n`

const pkcs8 = Buffer.concat([Buffer.from('302e020100300506032b657004220420', 'hex'), GO_SEED])
const peter = createPrivateKey({ key: pkcs8, format: 'der', type: 'pkcs8' })

const ORIGIN = 'craik.local/0011223344556677'
const { privateKey, publicKey } = generateKeyPairSync('ed25519')
const key = parseVkey(formatVkey(ORIGIN, publicKey))!
const root = Buffer.alloc(32, 7)
const note = signNote(checkpointText(ORIGIN, 12, root), ORIGIN, privateKey)

describe('signed notes', () => {
  it('match the Go reference implementation byte for byte', () => {
    expect(formatVkey('PeterNeumann', createPublicKey(peter))).toBe(GO_VKEY)
    expect(signNote(GO_TEXT, 'PeterNeumann', peter)).toBe(GO_NOTE)
  })

  it('are refused if their signed text is not a checkpoint', () => {
    const keys = [parseVkey(GO_VKEY)!]
    expect(openNote(GO_NOTE, keys)).toMatchObject({ ok: false, problem: 'malformed' })
    expect(openNote(GO_NOTE.replace('answer', 'Answer'), keys)).toMatchObject({ problem: 'bad_checkpoint' })
  })

  it('open as the signed checkpoint', () => {
    expect(openNote(note, [key])).toEqual({ ok: true, keyId: key.keyId, origin: ORIGIN, size: 12, root })
  })

  it('ignore signatures by untrusted keys if a trusted key signed too', () => {
    const witness = generateKeyPairSync('ed25519')
    const cosigned = note + signNote('x\n', 'witness.example', witness.privateKey).slice('x\n\n'.length)
    expect(openNote(cosigned, [key])).toMatchObject({ ok: true, size: 12 })
    const witnessKey = parseVkey(formatVkey('witness.example', witness.publicKey))!
    expect(openNote(note, [witnessKey])).toMatchObject({ ok: false, problem: 'foreign_key' })
  })

  it('count only under the name of the log itself', () => {
    const other = signNote(checkpointText('craik.local/other', 12, root), ORIGIN, privateKey)
    expect(openNote(other, [key])).toMatchObject({ ok: false, problem: 'malformed' })
  })

  it.each([
    ['no signature', note.slice(0, note.indexOf('—'))],
    ['no final newline', note.slice(0, -1)],
    ['a hyphen for the dash', note.replace('—', '-')],
    [
      'a size with a leading zero',
      signNote(`${ORIGIN}\n012\n${root.toString('base64')}\n`, ORIGIN, privateKey),
    ],
    ['a root of 31 bytes', signNote(checkpointText(ORIGIN, 12, root.subarray(1)), ORIGIN, privateKey)],
    ['a line more', signNote(`${checkpointText(ORIGIN, 12, root)}more\n`, ORIGIN, privateKey)],
    ['nothing', ''],
  ])('are refused with %s', (_, text) => {
    expect(openNote(text, [key])).toMatchObject({ ok: false, problem: 'malformed' })
  })

  it.each([
    'PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
    'PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
    'Peter Neumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
    'PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
    'PeterNeumann+c74f20a3',
    '',
  ])('refuse %j as a public key', (text) => {
    expect(parseVkey(text)).toBeUndefined()
  })

  it('are signed only with Ed25519 and under names that can be parsed', () => {
    expect(() => signNote('x\n', 'two words', privateKey)).toThrow(TypeError)
    expect(() => signNote('x', ORIGIN, privateKey)).toThrow(TypeError)
    const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
    expect(() => formatVkey(ORIGIN, rsa.publicKey)).toThrow(TypeError)
  })
})
