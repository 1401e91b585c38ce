import { expect, test } from 'vitest'
import { HARNESSES } from './all.ts'
import { generatedContents } from './harness.ts'

const PLACE = { gateway: 'http://127.0.0.1:8118', model: undefined, trustsProject: true }

test('recognizes a file that Craik wrote for any login without a model, when a model is requested', () => {
  for (const harness of Object.values(HARNESSES))
    for (const login of [undefined, ...harness.logins])
      for (const { path, content } of harness.settings({ ...PLACE, login }))
        expect(generatedContents(harness, { ...PLACE, model: 'some-model' }, path)).toContain(content)
})

test('does not recognize a file that the user wrote', () => {
  expect(generatedContents(HARNESSES.codex, PLACE, '.codex/config.toml')).not.toContain('model = "mine"\n')
})
