import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { CliContext } from '../context.ts'
import { allowWorkspace, createCommand, workspaceOf } from './create.ts'

describe('the workspace of a new sandbox', () => {
  it('is a copy, or the folder itself only with --in-place', () => {
    expect(workspaceOf({})).toEqual({ mode: 'copy' })
    expect(workspaceOf({ workspace: '.' })).toEqual({ mode: 'copy' })
    expect(workspaceOf({ workspace: '.', inPlace: true })).toEqual({ mode: 'in-place', folder: resolve('.') })
  })

  it.each([{ workspace: '' }, { workspace: '', inPlace: true }, { inPlace: true }])(
    'is never this folder without its name: %j',
    (options) => {
      expect(() => workspaceOf(options)).toThrow(
        expect.objectContaining({ code: 'usage', hint: expect.stringContaining('--workspace .') }),
      )
    },
  )
})

describe('a workspace that is too large', () => {
  const GIB = 2 ** 30

  it.each([
    [2 * GIB, 1 * GIB, 4 * GIB, '--max-copy 2g'],
    [6 * GIB, 4 * GIB, 4 * GIB, '--max-copy 6g --disk 7.5g'],
    [2 * GIB, 4 * GIB, 1 * GIB, '--disk 2.5g'],
  ])('of %i bytes is allowed by the suggested options', (bytes, copyBytes, diskBytes, options) => {
    expect(allowWorkspace(bytes, copyBytes, diskBytes)).toBe(options)
  })
})

describe('the transport of a container', () => {
  const parseCommand = (...typed: string[]) => {
    const command = createCommand({} as CliContext).exitOverride()
    command.configureOutput({ writeErr: () => {} }).action(() => {})
    return command.parse(typed, { from: 'user' }).opts()
  }

  it('is --transport in the help, and --line is accepted but hidden', () => {
    const help = createCommand({} as CliContext).helpInformation()
    expect(help).toContain('--transport <kind>')
    expect(help).not.toContain('--line')
    expect(parseCommand('--transport', 'relay')).toMatchObject({ transport: 'relay' })
    expect(parseCommand('--line', 'relay')).toMatchObject({ line: 'relay' })
  })

  it.each([[['--transport', 'tcp']], [['--line', 'tcp']], [['--line', 'relay', '--transport', 'socket']]])(
    'is refused for %j',
    (typed) => {
      expect(() => parseCommand(...typed)).toThrow()
    },
  )
})
