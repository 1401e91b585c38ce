/** `craik image`: manages the images of containers. It connects to the engine itself and never pushes an image. */
import { Command } from 'commander'
import type { NounBuilder } from './context.ts'
import { buildCommand } from './image/build.ts'
import { listImagesCommand, showImageCommand } from './image/list.ts'
import { pruneImagesCommand } from './image/prune.ts'

export const imageCommand: NounBuilder = (context) =>
  new Command('image')
    .addCommand(buildCommand(context))
    .addCommand(listImagesCommand(context))
    .addCommand(showImageCommand(context))
    .addCommand(pruneImagesCommand(context))
