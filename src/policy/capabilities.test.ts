import { readFile } from 'node:fs/promises'
import { schemaToJson } from '@cedar-policy/cedar-wasm/nodejs'
import { expect, test } from 'vitest'
import { CAPABILITY_NAMES, isCapability } from './capabilities.ts'

test('declares exactly the capabilities of the catalogue in the schema', async () => {
  const answer = schemaToJson(
    await readFile(new URL('./profiles/craik.cedarschema', import.meta.url), 'utf8'),
  )
  if (answer.type === 'failure') throw new Error(answer.errors[0]?.message)
  expect(Object.keys(answer.json['']?.actions ?? {}).sort()).toEqual([...CAPABILITY_NAMES].sort())
})

test('does not accept inherited property names as capabilities', () => {
  expect(isCapability('repo.read')).toBe(true)
  expect(isCapability('toString')).toBe(false)
  expect(isCapability('repo.red')).toBe(false)
})
