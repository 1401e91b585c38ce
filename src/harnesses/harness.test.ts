import { expect, test } from 'vitest'
import { HARNESSES } from './all.ts'
import { ownContents } from './harness.ts'

const GATEWAY = 'http://127.0.0.1:8118'

test('what was put for any login and no model is ours to replace when a model is asked for', () => {
  for (const harness of Object.values(HARNESSES))
    for (const login of [undefined, ...harness.logins])
      for (const { path, content } of harness.settings({ gateway: GATEWAY, login, model: undefined }))
        expect(ownContents(harness, { gateway: GATEWAY, model: 'some-model' }, path)).toContain(content)
})

test('what somebody else wrote is not', () => {
  const place = { gateway: GATEWAY, model: undefined }
  expect(ownContents(HARNESSES.codex, place, '.codex/config.toml')).not.toContain('model = "mine"\n')
})
