import type { ContentBlock } from '@agentclientprotocol/sdk'
import { describe, expect, it } from 'vitest'
import { promptForAgent } from './for-agent.ts'
import { workspacePaths } from './workspace-paths.ts'

const paths = workspacePaths('/srv/parser', '/workspace/home/project')
const promptBlock = (block: ContentBlock, takes = {}) => promptForAgent([block], paths, takes, 'codex')[0]

describe('a prompt from an editor', () => {
  it('names files by their paths in the sandbox', () => {
    expect(promptBlock({ type: 'text', text: 'fix /srv/parser/a.ts' })).toEqual({
      type: 'text',
      text: 'fix /workspace/home/project/a.ts',
    })
    const link = {
      type: 'resource_link',
      name: 'a.ts',
      uri: 'file:///srv/parser/a.ts#L1',
      _meta: { x: 1 },
    } as const
    expect(promptBlock(link)).toEqual({
      type: 'resource_link',
      name: 'a.ts',
      uri: 'file:///workspace/home/project/a.ts#L1',
    })
  })

  it('contains files as text for an agent that does not accept embedded files', () => {
    const file: ContentBlock = { type: 'resource', resource: { uri: 'file:///srv/parser/a', text: 'one' } }
    expect(promptBlock(file)).toEqual({ type: 'text', text: 'file:///workspace/home/project/a:\none' })
    expect(promptBlock(file, { embeddedContext: true })).toEqual({
      type: 'resource',
      resource: { uri: 'file:///workspace/home/project/a', text: 'one' },
    })
  })

  it('contains an image only for an agent that accepts images', () => {
    const picture: ContentBlock = {
      type: 'image',
      data: 'AA==',
      mimeType: 'image/png',
      uri: 'file:///srv/x.png',
    }
    expect(promptBlock(picture, { image: true })).toEqual({
      type: 'image',
      data: 'AA==',
      mimeType: 'image/png',
    })
    expect(() => promptBlock(picture)).toThrow('codex does not accept images in a prompt')
  })
})
