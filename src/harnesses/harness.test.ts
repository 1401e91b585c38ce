import { expect, test } from 'vitest'
import { HARNESSES } from './all.ts'
import { ownContents } from './harness.ts'

const PLACE = { gateway: 'http://127.0.0.1:8118', model: undefined, trustsProject: true }

test('what was put for any login and no model is ours to replace when a model is asked for', () => {
  for (const harness of Object.values(HARNESSES))
    for (const login of [undefined, ...harness.logins])
      for (const { path, content } of harness.settings({ ...PLACE, login }))
        expect(ownContents(harness, { ...PLACE, model: 'some-model' }, path)).toContain(content)
})

test('what somebody else wrote is not', () => {
  expect(ownContents(HARNESSES.codex, PLACE, '.codex/config.toml')).not.toContain('model = "mine"\n')
})
