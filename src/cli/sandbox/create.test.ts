import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { workspaceOf } from './create.ts'

describe('the workspace of a new sandbox', () => {
  it('is a copy, or the folder itself where that is asked for by name', () => {
    expect(workspaceOf({})).toEqual({ mode: 'copy' })
    expect(workspaceOf({ workspace: '.' })).toEqual({ mode: 'copy' })
    expect(workspaceOf({ workspace: '.', inPlace: true })).toEqual({ mode: 'in-place', folder: resolve('.') })
  })

  it.each([{ workspace: '' }, { workspace: '', inPlace: true }, { inPlace: true }])(
    'is never this folder because nothing was said: %j',
    (options) => {
      expect(() => workspaceOf(options)).toThrow(
        expect.objectContaining({ code: 'usage', hint: expect.stringContaining('--workspace .') }),
      )
    },
  )
})
