import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { KEY_BYTES, openValue, sealValue } from './seal.ts'
import { MAX_VALUE_BYTES } from './secret.ts'

const key = randomBytes(KEY_BYTES)
const name = fc.stringMatching(/^[A-Za-z][A-Za-z0-9_.-]{0,30}$/)
const value = fc.uint8Array({ minLength: 1, maxLength: 300 })
const damaged = expect.objectContaining({ code: 'store_damaged' })

it('opens what it sealed', () => {
  fc.assert(
    fc.property(name, value, (secret, bytes) => {
      expect(openValue(key, secret, sealValue(key, secret, bytes))).toEqual(Buffer.from(bytes))
    }),
  )
  const large = randomBytes(MAX_VALUE_BYTES)
  expect(openValue(key, 'LARGE', sealValue(key, 'LARGE', large))).toEqual(large)
})

it('refuses a sealed value with any single bit flipped', () => {
  fc.assert(
    fc.property(name, value, fc.nat(), (secret, bytes, position) => {
      const sealed = sealValue(key, secret, bytes)
      const bit = position % (sealed.length * 8)
      sealed[bit >> 3]! ^= 1 << (bit & 7)
      expect(() => openValue(key, secret, sealed)).toThrow(damaged)
    }),
  )
  const sealed = sealValue(key, 'EVERY_BIT', Buffer.from('short'))
  for (let bit = 0; bit < sealed.length * 8; bit++) {
    const flipped = Buffer.from(sealed)
    flipped[bit >> 3]! ^= 1 << (bit & 7)
    expect(() => openValue(key, 'EVERY_BIT', flipped)).toThrow(damaged)
  }
})

it('refuses a sealed value cut short at any length', () => {
  const sealed = sealValue(key, 'CUT', Buffer.from('value'))
  for (let length = 0; length < sealed.length; length++)
    expect(() => openValue(key, 'CUT', sealed.subarray(0, length))).toThrow(damaged)
})

it('refuses a sealed value under another name, or with another key', () => {
  const sealed = sealValue(key, 'DEV_KEY', Buffer.from('value'))
  expect(() => openValue(key, 'PROD_KEY', sealed)).toThrow(damaged)
  expect(() => openValue(randomBytes(KEY_BYTES), 'DEV_KEY', sealed)).toThrow(damaged)
})

it('never uses a nonce twice in a thousand seals of the same value', () => {
  const nonces = new Set<string>()
  for (let i = 0; i < 1000; i++)
    nonces.add(sealValue(key, 'N', Buffer.from('v')).subarray(1, 13).toString('hex'))
  expect(nonces.size).toBe(1000)
})
