/**
 * Translates the user's prompt in an editor for an agent in a sandbox: workspace paths become the paths in the sandbox.
 */
import type { ContentBlock, PromptCapabilities } from '@agentclientprotocol/sdk'
import { CraikError } from '../../errors.ts'
import type { WorkspacePaths } from './workspace-paths.ts'

export function promptForAgent(
  prompt: readonly ContentBlock[],
  paths: WorkspacePaths,
  takes: PromptCapabilities,
  harness: string,
): ContentBlock[] {
  return prompt.map((block) => blockForAgent(block, paths, takes, harness))
}

function blockForAgent(
  block: ContentBlock,
  paths: WorkspacePaths,
  takes: PromptCapabilities,
  harness: string,
): ContentBlock {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: paths.textToSandbox(block.text) }
    case 'resource_link': {
      const { _meta, annotations: _, uri, ...link } = block
      return { ...link, uri: paths.uriToSandbox(uri) ?? uri }
    }
    case 'resource': {
      const { resource } = block
      const uri = paths.uriToSandbox(resource.uri) ?? resource.uri
      const { mimeType } = resource
      if (takes.embeddedContext)
        return {
          type: 'resource',
          resource: {
            ...('text' in resource ? { uri, text: resource.text } : { uri, blob: resource.blob }),
            ...(mimeType && { mimeType }),
          },
        }
      if ('text' in resource) return { type: 'text', text: `${uri}:\n${resource.text}` }
      throw notTaken(harness, 'binary files')
    }
    case 'image':
    case 'audio': {
      const { type, data, mimeType } = block
      if (!takes[type]) throw notTaken(harness, type === 'image' ? 'images' : 'audio')
      return { type, data, mimeType }
    }
    default:
      throw notTaken(harness, 'this kind of content')
  }
}

function notTaken(harness: string, what: string): CraikError {
  return new CraikError('usage', `${harness} does not accept ${what} in a prompt`, {
    hint: 'remove that content from the prompt',
  })
}
